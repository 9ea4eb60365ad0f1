//! The name of a key's file: readable, and different for different keys.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The most bytes of a name that is not shortened: file systems allow 255.
const NAME_BYTES_MAX: usize = 200;
/// How many bytes of a longer one are kept for readers, before the hash.
const READABLE_BYTES: usize = 100;

/// The file name of a key.
///
/// Every byte but letters, digits, `.`, `_` and `-` becomes `%XX`, a leading dot too: names with one are the store's
/// own. A long name ends in `%sha256-` and the key's hash, which no escape looks like.
pub(super) fn of_key(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for (i, byte) in key.bytes().enumerate() {
        match byte {
            b'.' if i == 0 => name.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                name.push(char::from(byte))
            }
            _ => write!(name, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    if name.len() > NAME_BYTES_MAX {
        name.truncate(READABLE_BYTES);
        write!(name, "%sha256-{:x}", Sha256::digest(key))
            .expect("writing to a string does not fail");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_never_leave_the_directory() {
        assert_eq!(of_key("world-0.rank_1"), "world-0.rank_1");
        assert_eq!(of_key("a/b"), "a%2Fb");
        assert_eq!(of_key(".."), "%2E.");
        assert_eq!(of_key("%"), "%25");
        assert_eq!(of_key("é\0"), "%C3%A9%00");
    }

    #[test]
    fn long_names_are_bounded_and_differ_in_their_hash() {
        let (a, b) = (of_key(&"/".repeat(1024)), of_key(&"/".repeat(1023)));
        assert_ne!(a, b);
        assert!(a.len() <= NAME_BYTES_MAX, "{a}");
    }
}
