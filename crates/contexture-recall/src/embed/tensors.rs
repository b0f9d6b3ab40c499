//! Reads tensors of a `model.safetensors`: eight bytes with the length of a
//! JSON header, the header, and the described numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A tensor in a safetensors file.
pub struct Tensor<'b> {
    /// The type of its numbers, such as `F32`.
    pub kind: String,
    /// The size of each dimension.
    pub shape: Vec<usize>,
    /// The position of its first byte in the file.
    pub start: usize,
    /// The bytes of its numbers.
    pub bytes: &'b [u8],
}

#[derive(Deserialize)]
struct Described {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Reads the header. Errors do not contain the name of the file.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor<'_>>, String> {
    let (length, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or("is too short to have a header")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > rest.len() {
        return Err(format!(
            "says that its header has {length} bytes, but {} follow",
            rest.len()
        ));
    }
    let (header, data) = rest.split_at(length);
    let header: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|error| format!("has a bad header: {error}"))?;
    let mut tensors = BTreeMap::new();
    for (name, value) in header {
        if name == "__metadata__" {
            continue;
        }
        let described: Described = serde_json::from_value(value)
            .map_err(|error| format!("describes the tensor `{name}` badly: {error}"))?;
        let (start, end) = described.data_offsets;
        let bytes = data.get(start..end).ok_or_else(|| {
            format!(
                "puts the tensor `{name}` at bytes {start} to {end} of {}",
                data.len()
            )
        })?;
        let width = width(&described.dtype)
            .ok_or_else(|| format!("has numbers of an unknown kind: {}", described.dtype))?;
        let expected = described
            .shape
            .iter()
            .try_fold(width, |size, side| size.checked_mul(*side));
        if expected != Some(bytes.len()) {
            return Err(format!(
                "gives the tensor `{name}` {} bytes, which do not fit its shape {:?} of {}",
                bytes.len(),
                described.shape,
                described.dtype
            ));
        }
        tensors.insert(
            name,
            Tensor {
                kind: described.dtype,
                shape: described.shape,
                start: 8 + length + start,
                bytes,
            },
        );
    }
    Ok(tensors)
}

fn width(kind: &str) -> Option<usize> {
    Some(match kind {
        "BOOL" | "U8" | "I8" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" => 8,
        _ => return None,
    })
}

impl Tensor<'_> {
    /// Returns the numbers of a floating-point tensor.
    pub fn floats(&self) -> Result<Vec<f32>, String> {
        let numbers: Vec<f32> = match self.kind.as_str() {
            "F32" => map(self.bytes, f32::from_le_bytes),
            "F64" => map(self.bytes, |b| f64::from_le_bytes(b) as f32),
            "F16" => map(self.bytes, |b| half(u16::from_le_bytes(b))),
            "BF16" => map(self.bytes, |b| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
            }),
            kind => return Err(format!("must be F32, F16, BF16 or F64, not {kind}")),
        };
        match numbers.iter().position(|number| !number.is_finite()) {
            None => Ok(numbers),
            Some(at) => Err(format!("has {} as component {at}", numbers[at])),
        }
    }

    /// Returns the numbers of an integer tensor.
    pub fn wholes(&self) -> Result<Vec<u32>, String> {
        let numbers: Vec<i128> = match self.kind.as_str() {
            "I64" => map(self.bytes, |b| i64::from_le_bytes(b).into()),
            "U64" => map(self.bytes, |b| u64::from_le_bytes(b).into()),
            "I32" => map(self.bytes, |b| i32::from_le_bytes(b).into()),
            "U32" => map(self.bytes, |b| u32::from_le_bytes(b).into()),
            "I16" => map(self.bytes, |b| i16::from_le_bytes(b).into()),
            "U16" => map(self.bytes, |b| u16::from_le_bytes(b).into()),
            kind => return Err(format!("must be whole numbers, not {kind}")),
        };
        numbers
            .into_iter()
            .map(|number| u32::try_from(number).map_err(|_| format!("has {number} in it")))
            .collect()
    }
}

fn map<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|b| read(*b)).collect()
}

/// Converts a 16-bit float (IEEE 754 binary16) to 32 bits.
fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_are_widened() {
        for (bits, number) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0400, 6.103_515_6e-5),
        ] {
            assert_eq!(half(bits), number, "{bits:#x}");
        }
        assert!(half(0x7c01).is_nan());
        assert_eq!(half(0xfc00), f32::NEG_INFINITY);
    }
}
