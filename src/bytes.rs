//! Short texts compared in place, where a call of the system's `memcmp` costs more than the comparison.

/// Whether two texts are the same, eight bytes at a time.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (Some(a_last), Some(b_last)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) else {
        return few(a, b);
    };
    let (mut a, mut b) = (a, b);
    while let (Some((a_word, a_rest)), Some((b_word, b_rest))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        if a_word != b_word {
            return false;
        }
        (a, b) = (a_rest, b_rest);
    }
    // Some of them again, if their number is no multiple of eight.
    a_last == b_last
}

/// The same of fewer than eight.
#[inline]
fn few(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<4>(), b.first_chunk::<4>()) {
        (Some(a_first), Some(b_first)) => a_first == b_first && a.last_chunk::<4>() == b.last_chunk(),
        _ => a.iter().eq(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_if_every_byte_is() {
        for length in 0..40 {
            let text: Vec<u8> = (0..length).collect();
            assert!(same(&text, &text.clone()), "{length}");
            assert!(!same(&text, &[&text[..], b"x"].concat()), "{length}");
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!same(&text, &other), "{length}, {at}");
            }
        }
    }
}
