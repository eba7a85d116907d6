//! MD5 (RFC 1321) for texts that come in pieces: what Dubbo's ring is made of. It guards no secret here.
//!
//! Written out, since the crate for it would bring six more, for one function of a fixed standard.

/// How far each step turns, by round.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The integer part of `2^32 * |sin(i + 1)|`, as the standard defines them.
const SINES: [u32; 64] = [
    0xd76a_a478,
    0xe8c7_b756,
    0x2420_70db,
    0xc1bd_ceee,
    0xf57c_0faf,
    0x4787_c62a,
    0xa830_4613,
    0xfd46_9501,
    0x6980_98d8,
    0x8b44_f7af,
    0xffff_5bb1,
    0x895c_d7be,
    0x6b90_1122,
    0xfd98_7193,
    0xa679_438e,
    0x49b4_0821,
    0xf61e_2562,
    0xc040_b340,
    0x265e_5a51,
    0xe9b6_c7aa,
    0xd62f_105d,
    0x0244_1453,
    0xd8a1_e681,
    0xe7d3_fbc8,
    0x21e1_cde6,
    0xc337_07d6,
    0xf4d5_0d87,
    0x455a_14ed,
    0xa9e3_e905,
    0xfcef_a3f8,
    0x676f_02d9,
    0x8d2a_4c8a,
    0xfffa_3942,
    0x8771_f681,
    0x6d9d_6122,
    0xfde5_380c,
    0xa4be_ea44,
    0x4bde_cfa9,
    0xf6bb_4b60,
    0xbebf_bc70,
    0x289b_7ec6,
    0xeaa1_27fa,
    0xd4ef_3085,
    0x0488_1d05,
    0xd9d4_d039,
    0xe6db_99e5,
    0x1fa2_7cf8,
    0xc4ac_5665,
    0xf429_2244,
    0x432a_ff97,
    0xab94_23a7,
    0xfc93_a039,
    0x655b_59c3,
    0x8f0c_cc92,
    0xffef_f47d,
    0x8584_5dd1,
    0x6fa8_7e4f,
    0xfe2c_e6e0,
    0xa301_4314,
    0x4e08_11a1,
    0xf753_7e82,
    0xbd3a_f235,
    0x2ad7_d2bb,
    0xeb86_d391,
];

/// A digest on its way.
pub(super) struct Md5 {
    state: [u32; 4],
    rest: [u8; 64],
    length: u64,
}

impl Md5 {
    pub(super) fn new() -> Self {
        Self { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], rest: [0; 64], length: 0 }
    }

    /// The digest of one text.
    pub(super) fn of(text: &[u8]) -> [u8; 16] {
        let mut digest = Self::new();
        digest.write(text);
        digest.finish()
    }

    /// One more piece.
    pub(super) fn write(&mut self, mut piece: &[u8]) {
        let held = self.held();
        self.length = self.length.wrapping_add(piece.len() as u64);
        if held + piece.len() < 64 {
            self.rest[held..held + piece.len()].copy_from_slice(piece);
            return;
        }
        let (head, tail) = piece.split_at(64 - held);
        self.rest[held..].copy_from_slice(head);
        let block = self.rest;
        self.block(&block);
        piece = tail;
        while let Some((block, tail)) = piece.split_first_chunk::<64>() {
            self.block(block);
            piece = tail;
        }
        self.rest[..piece.len()].copy_from_slice(piece);
    }

    /// The digest of all pieces.
    pub(super) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8).to_le_bytes();
        let held = self.held();
        let blanks = if held < 56 { 56 - held } else { 120 - held };
        let mut end = [0; 64];
        end[0] = 0x80;
        self.write(&end[..blanks]);
        self.write(&bits);
        let mut out = [0; 16];
        for (bytes, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        out
    }

    fn held(&self) -> usize {
        (self.length % 64) as usize
    }

    fn block(&mut self, block: &[u8; 64]) {
        let mut words = [0; 16];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let [mut a, mut b, mut c, mut d] = self.state;
        for (step, sine) in SINES.into_iter().enumerate() {
            let (mixed, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(sine).wrapping_add(words[at % 16]);
            let next = b.wrapping_add(sum.rotate_left(TURNS[step / 16][step % 4]));
            (a, b, c, d) = (d, next, b, c);
        }
        for (word, add) in self.state.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(add);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Md5;

    fn hex(digest: [u8; 16]) -> String {
        format!("{:032x}", u128::from_be_bytes(digest))
    }

    #[test]
    fn the_test_suite_of_rfc_1321() {
        let eighty = "1234567890".repeat(8);
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (&eighty, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(Md5::of(text.as_bytes())), digest, "{text}");
        }
    }

    #[test]
    fn pieces_make_the_same_digest_as_the_whole() {
        let text: Vec<u8> = (0..200).collect();
        for length in 0..text.len() {
            for step in [1, 7, 63, 64, 65] {
                let mut digest = Md5::new();
                text[..length].chunks(step).for_each(|piece| digest.write(piece));
                assert_eq!(digest.finish(), Md5::of(&text[..length]), "{length} in pieces of {step}");
            }
        }
    }
}
