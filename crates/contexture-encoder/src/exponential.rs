//! The exponential function and functions derived from it. They return the same
//! bits on every machine, in a form that the compiler converts to vector
//! instructions.

/// Adding this to a small number leaves its integer part in the lowest bits.
/// Casts would do the same, but the compiler creates no vector instructions for
/// them.
const ROUND: f32 = 12_582_912.0;

/// Returns `x`, of at most 32767, rounded to an integer.
#[inline(always)]
pub(crate) fn round(x: f32) -> i16 {
    (x + ROUND).to_bits() as i16
}

/// Returns e to the power of `x`, with a relative error of about 1e-7. Results
/// outside the range of `f32` become the largest and smallest normal numbers.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // ln 2 in two parts, so that the product with an integer is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;
    let mut sum = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = sum * rest + factor;
    }
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    sum * f32::from_bits(exponent.wrapping_add(127) << 23)
}

/// The activation of a feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activation {
    /// GELU with the hyperbolic tangent.
    GeluTanh,
    /// GELU with the error function, as in BERT.
    GeluErf,
    /// The positive part.
    Relu,
}

impl Activation {
    /// Applies the activation to every number.
    #[inline(always)]
    pub(crate) fn apply(self, numbers: &mut [f32]) {
        match self {
            Activation::GeluTanh => {
                for x in numbers {
                    let inner = 1.595_769 * (*x + 0.044_715 * *x * *x * *x);
                    *x /= 1.0 + exp(-inner);
                }
            }
            Activation::GeluErf => {
                for x in numbers {
                    *x = 0.5 * *x * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2));
                }
            }
            Activation::Relu => {
                for x in numbers {
                    *x = x.max(0.0);
                }
            }
        }
    }
}

/// Returns the error function with an error of about 1e-7 (Abramowitz and
/// Stegun 7.1.26).
#[inline(always)]
fn erf(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let mut sum = 1.061_405_4;
    for factor in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        sum = sum * t + factor;
    }
    (1.0 - sum * t * exp(-size * size)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_near_those_of_the_standard_library() {
        for i in -8_700..8_800 {
            let x = i as f32 / 100.0;
            let (ours, theirs) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((ours / theirs - 1.0).abs() < 5e-7, "{x}: {ours} {theirs}");
        }
        assert!(exp(-1e9) >= 0.0 && exp(1e9).is_finite());
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn activations_have_known_values() {
        let check = |activation: Activation, x: f32, expected: f32| {
            let mut number = [x];
            activation.apply(&mut number);
            assert!(
                (number[0] - expected).abs() < 1e-6,
                "{activation:?} {x}: {number:?}"
            );
        };
        for activation in [Activation::GeluTanh, Activation::GeluErf] {
            check(activation, 0.0, 0.0);
            check(activation, 30.0, 30.0);
            check(activation, -30.0, 0.0);
        }
        check(Activation::GeluErf, 1.0, 0.841_344_8);
        check(Activation::GeluErf, -1.0, -0.158_655_2);
        check(Activation::GeluTanh, 1.0, 0.841_192);
        check(Activation::Relu, -1.0, 0.0);
    }
}
