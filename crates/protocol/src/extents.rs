//! Files with holes in the archives of a disk: a PAX extension says where the bytes belong.

/// Where the data of a file with holes is; its bytes are only those.
pub const EXTENTS: &str = "PADDOCK.extents";
pub const MOST_EXTENTS: usize = 4096;

/// The content of a file with holes, as [`EXTENTS`] tells it: its size, and where its bytes belong.
pub fn parse_extents(text: &[u8]) -> Option<(u64, Vec<(u64, u64)>)> {
    let numbers: Vec<u64> =
        std::str::from_utf8(text).ok()?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let (size, pairs) = numbers.split_first()?;
    if pairs.len() % 2 != 0 || i64::try_from(*size).is_err() {
        return None;
    }
    let pairs: Vec<(u64, u64)> = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs
        .iter()
        .all(|(at, length)| at.checked_add(*length).is_some_and(|end| end <= *size))
        .then_some((*size, pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_checked() {
        assert_eq!(parse_extents(b"10,0,4,8,2"), Some((10, vec![(0, 4), (8, 2)])));
        assert_eq!(parse_extents(b"10"), Some((10, vec![])));
        for text in
            [&b""[..], b"10,1", b"10,8,3", b"x", b"18446744073709551615", b"10,18446744073709551615,2"]
        {
            assert!(parse_extents(text).is_none(), "{text:?}");
        }
    }
}
