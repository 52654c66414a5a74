//! What a claim gave, packed: a thousand leases in four kilobytes, since all
//! claims of ten minutes are kept.

use crate::fail::{Done, Fail};

/// Packs pairs of (seq, fence): the distance to the seq before, then the fence,
/// each in groups of seven bits.
pub fn pack(leases: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before = 0;
    for (seq, fence) in leases {
        let distance = seq.wrapping_sub(before).cast_signed();
        put(&mut out, ((distance << 1) ^ (distance >> 63)).cast_unsigned());
        put(&mut out, fence);
        before = seq;
    }
    out
}

/// The pairs again.
pub fn unpack(mut packed: &[u8]) -> Done<Vec<(u64, u64)>> {
    let mut leases = Vec::new();
    let mut before = 0_u64;
    while !packed.is_empty() {
        let folded = take(&mut packed)?;
        let distance = (folded >> 1) ^ (folded & 1).wrapping_neg();
        before = before.wrapping_add(distance);
        leases.push((before, take(&mut packed)?));
    }
    Ok(leases)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(packed: &mut &[u8]) -> Done<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = packed.split_first().ok_or_else(|| Fail::damaged("a claim that was cut"))?;
        *packed = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Fail::damaged("a claim with a number beyond 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_reads_back(leases in proptest::collection::vec(any::<(u64, u64)>(), 0..50)) {
            let packed = pack(leases.iter().copied());
            prop_assert_eq!(unpack(&packed).unwrap(), leases);
        }
    }

    #[test]
    fn a_cut_claim_is_refused() {
        let packed = pack([(1_000_000, 300)].into_iter());
        assert!(unpack(&packed[..packed.len() - 1]).is_err());
        assert_eq!(pack((0..1000).map(|seq| (seq, 1))).len(), 2000);
    }
}
