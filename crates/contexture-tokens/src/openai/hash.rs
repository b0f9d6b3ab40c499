//! The hash of tokens. The build script uses this file, too: the table that it
//! writes can only be read with the same hash.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the hash of `bytes`.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let seed = MULTIPLIER.wrapping_mul(length as u64 + 1);
    // Words overlap rather than being padded: reading whole words is fast.
    match *bytes {
        [] => seed,
        [a] => mix(seed ^ u64::from(a)),
        [a, b] => mix(seed ^ u64::from(u16::from_le_bytes([a, b]))),
        [a, b, c] => mix(seed ^ u64::from(u32::from_le_bytes([a, b, c, 0]))),
        _ => match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) => {
                let mut state = seed;
                if length > 8 {
                    state = mix(state ^ u64::from_le_bytes(*first));
                    let (words, _) = bytes[8..].as_chunks::<8>();
                    for word in words {
                        state = mix(state ^ u64::from_le_bytes(*word));
                    }
                }
                mix(state ^ u64::from_le_bytes(*last))
            }
            _ => {
                let half = |bytes: Option<&[u8; 4]>| {
                    bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
                };
                let (first, last) = (half(bytes.first_chunk()), half(bytes.last_chunk()));
                mix(seed ^ first ^ (last << 32))
            }
        },
    }
}

#[inline]
fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0xA24B_AED4_963E_E407) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the slot among `slots` at which the search for `hash` begins.
#[inline]
pub(crate) fn first_slot(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

/// The bits of a slot that hold the index of a token; the others are its tag.
pub(crate) const INDEX_BITS: u32 = 18;

/// A slot that holds no token.
pub(crate) const EMPTY: u32 = u32::MAX;

/// Returns the part of `hash` that is stored in a slot, in its place.
#[inline]
pub(crate) fn tag(hash: u64) -> u32 {
    (hash as u32) << INDEX_BITS
}
