//! The addresses of this host's network interfaces.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use super::check;

/// An address of an interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name ("eth0").
    pub name: String,
    /// One of its addresses.
    pub address: IpAddr,
}

/// Frees the list that `getifaddrs` made.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `getifaddrs`, and is freed once.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

/// All addresses of interfaces that are up, in the system's order.
///
/// # Errors
///
/// The system refuses to list them.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first = ptr::null_mut();
    // SAFETY: `first` is writable; the list is owned by `List` from here on.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let list = List(first);
    let mut found = Vec::new();
    let mut next = list.0;
    // SAFETY: `next` is null or an element of the list, which lives until `list` is dropped.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        if let Some(address) = address(entry.ifa_addr) {
            // SAFETY: every element has a name that ends with a zero, and lives as long as the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(Interface { name: name.to_string_lossy().into_owned(), address });
        }
    }
    Ok(found)
}

/// Reads an address that `getifaddrs` gave: null, or a structure as long as its family says.
fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or an initialised address of the list.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that it is a `sockaddr_in`; read unaligned, as nothing promises more.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a `sockaddr_in6`; read unaligned, as nothing promises more.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed() {
        let all = interfaces().unwrap();
        assert!(all.iter().any(|interface| interface.address.is_loopback()), "{all:?}");
    }
}
