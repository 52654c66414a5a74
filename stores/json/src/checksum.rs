//! A CRC-64 (the one of XZ): it sees every flipped bit and every torn end.

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// The checksum of some bytes. For layouts that want to see damage.
pub fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_crc_of_xz() {
        assert_eq!(checksum(b"123456789"), 0x995D_C9BB_DF19_39FA);
        assert_eq!(checksum(b""), 0);
    }
}
