//! The version of the header, and of the library that is loaded.

/// Raised by a break of the ABI, together with the SONAME.
/// Programs that were built with another one do not load this library.
pub const COLLECT_VERSION_MAJOR: u32 = 0;
/// Raised by an addition.
/// Programs that were built with an earlier one run with this library as well.
pub const COLLECT_VERSION_MINOR: u32 = 1;
/// Raised by a fix.
/// Says nothing about what the library can do.
pub const COLLECT_VERSION_PATCH: u32 = 0;
/// The version of this header as one number.
/// What `collect_version_number` returns if the library that is loaded is as old as this header.
pub const COLLECT_VERSION_NUMBER: u32 =
    (COLLECT_VERSION_MAJOR << 16) | (COLLECT_VERSION_MINOR << 8) | COLLECT_VERSION_PATCH;

/// The version of the loaded library: `major << 16 | minor << 8 | patch`.
///
/// A library serves every program that was built with a header of the same major version and no later
/// minor version. Compare it with `COLLECT_VERSION_NUMBER` when you load the library by hand:
///
/// ```c
/// const uint32_t loaded = collect_version_number();
/// int serves_us = loaded >> 16 == COLLECT_VERSION_MAJOR &&
///                 (loaded >> 8 & 0xff) >= COLLECT_VERSION_MINOR;
/// ```
///
/// Never fails.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn collect_version_number() -> u32 {
    COLLECT_VERSION_NUMBER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_crates_version() {
        let version =
            format!("{COLLECT_VERSION_MAJOR}.{COLLECT_VERSION_MINOR}.{COLLECT_VERSION_PATCH}");
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}
