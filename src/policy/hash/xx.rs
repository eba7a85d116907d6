//! XXH64 with seed 0, for texts that come in pieces: the hash that gRPC and Envoy use.
//!
//! A hash that decides who serves a key must be the same in every process and every version: no hasher of the standard
//! library is. Written out here, since nothing but this one function is needed.

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// A hash on its way.
pub(super) struct Xx64 {
    lanes: [u64; 4],
    /// What does not fill a block yet.
    rest: [u8; 32],
    length: u64,
}

impl Xx64 {
    #[inline]
    pub(super) fn new() -> Self {
        let lanes = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
        Self { lanes, rest: [0; 32], length: 0 }
    }

    /// The hash of one text.
    #[inline]
    pub(super) fn of(text: &[u8]) -> u64 {
        if text.len() < 32 {
            // Nearly every key: nothing to copy.
            return ended(P5.wrapping_add(text.len() as u64), text);
        }
        let mut hash = Self::new();
        hash.write(text);
        hash.finish()
    }

    /// One more piece.
    #[inline]
    pub(super) fn write(&mut self, mut piece: &[u8]) {
        let held = self.held();
        self.length = self.length.wrapping_add(piece.len() as u64);
        if held + piece.len() < 32 {
            self.rest[held..held + piece.len()].copy_from_slice(piece);
            return;
        }
        if held > 0 {
            let (head, tail) = piece.split_at(32 - held);
            self.rest[held..].copy_from_slice(head);
            let block = self.rest;
            self.block(&block);
            piece = tail;
        }
        while let Some((block, tail)) = piece.split_first_chunk::<32>() {
            self.block(block);
            piece = tail;
        }
        self.rest[..piece.len()].copy_from_slice(piece);
    }

    /// The hash of all pieces.
    #[inline]
    pub(super) fn finish(&self) -> u64 {
        let hash = if self.length >= 32 {
            let [a, b, c, d] = self.lanes;
            let sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            let sum = sum.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
            self.lanes
                .into_iter()
                .fold(sum, |sum, lane| (sum ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
        } else {
            P5
        };
        ended(hash.wrapping_add(self.length), &self.rest[..self.held()])
    }

    fn held(&self) -> usize {
        (self.length % 32) as usize
    }

    fn block(&mut self, block: &[u8; 32]) {
        for (lane, word) in self.lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
}

/// With what does not fill a block, and mixed.
#[inline]
fn ended(mut hash: u64, mut rest: &[u8]) -> u64 {
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = tail;
    }
    if let Some((word, tail)) = rest.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(P1);
        hash = hash.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        rest = tail;
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(P5);
        hash = hash.rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[cfg(test)]
mod tests {
    use super::Xx64;

    #[test]
    fn lbs_xxh64_of_known_texts() {
        for (text, hash) in [
            ("", 0xef46_db37_51d8_e999),
            ("a", 0xd24e_c4f1_a98c_6e5b),
            ("as", 0x1c33_0fb2_d66b_e179),
            ("asd", 0x631c_37ce_72a9_7393),
            ("asdf", 0x4158_72f5_99ce_a71e),
            ("abc", 0x44bc_2cf5_ad77_0999),
            ("Call me Ishmael. Some years ago--never mind how long precisely-", 0x02a2_e854_70d6_fd96),
        ] {
            assert_eq!(Xx64::of(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn pieces_make_the_same_hash_as_the_whole() {
        let text: Vec<u8> = (0..200).collect();
        for length in 0..text.len() {
            let whole = Xx64::of(&text[..length]);
            for step in [1, 3, 31, 32, 33, 64] {
                let mut hash = Xx64::new();
                text[..length].chunks(step).for_each(|piece| hash.write(piece));
                assert_eq!(hash.finish(), whole, "{length} in pieces of {step}");
            }
        }
    }
}
