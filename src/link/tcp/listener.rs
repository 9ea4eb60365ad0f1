//! The listening socket of an endpoint, and the addresses under which others reach it.
//!
//! Asked for nothing, it listens on every address of both IP versions, and advertises those of the interfaces that are
//! up, loopback last: that one is for members on the same host only.
#![forbid(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Type};

use super::socket::canonical;
use crate::error::Error;
use crate::link::syscall::fork::{Registration, close_in_child};
use crate::link::syscall::interfaces::{Interface, interfaces};

/// Connections that the kernel keeps for us; it cuts this to its own limit.
const BACKLOG: i32 = 4096;

/// Where to listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// An address (`10.0.0.7`, `::1`, `[::1]:4711`, `10.0.0.7:4711`), the name of an interface (`eth0`, its first
    /// address), or empty: every address.
    pub address: String,
    /// The port, where the address has none; 0 lets the system choose.
    pub port: u16,
}

impl ListenOptions {
    /// What the environment variable `LIBCOLLECT_LISTEN` asks for.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { address: std::env::var("LIBCOLLECT_LISTEN").unwrap_or_default(), port: 0 }
    }

    /// The address to bind; `None` is every address.
    fn bind_address(&self) -> Result<Option<SocketAddr>, Error> {
        let text = self.address.trim();
        if text.is_empty() {
            return Ok(None);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Some(address));
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Some(SocketAddr::new(address, self.port)));
        }
        let named = list()?.into_iter().find(|interface| interface.name == text);
        named.map(|interface| Some(SocketAddr::new(interface.address, self.port))).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "listen on \"{text}\": neither an IP address nor an interface of this host that is up"
            ))
        })
    }
}

/// A nonblocking listening socket.
#[derive(Debug)]
pub struct Listener {
    _registration: Registration,
    listener: TcpListener,
    local: SocketAddr,
}

impl Listener {
    /// Binds and listens.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the text names no address of this host; [`Error::System`] if the address cannot be
    /// bound.
    pub fn bind(options: &ListenOptions) -> Result<Self, Error> {
        match options.bind_address()? {
            Some(address) => Self::bind_to(address),
            None => Self::bind_to((Ipv6Addr::UNSPECIFIED, options.port).into())
                .or_else(|_| Self::bind_to((Ipv4Addr::UNSPECIFIED, options.port).into())),
        }
    }

    fn bind_to(address: SocketAddr) -> Result<Self, Error> {
        let failed = |error: io::Error| cannot_listen(address, &error);
        let listener = listen(address).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let registration = close_in_child(listener.as_fd()).map_err(failed)?;
        Ok(Self { _registration: registration, listener, local })
    }

    /// Where others may reach it, best first.
    ///
    /// # Errors
    ///
    /// The system refuses to list its interfaces.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        if !self.local.ip().is_unspecified() {
            return Ok(vec![canonical(self.local)]);
        }
        let usable = |interface: &Interface| {
            let address = interface.address;
            let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
            !link_local && (self.local.is_ipv6() || address.is_ipv4())
        };
        let mut found: Vec<IpAddr> =
            list()?.into_iter().filter(usable).map(|interface| interface.address).collect();
        found.sort_by_key(IpAddr::is_loopback);
        found.dedup();
        Ok(found.into_iter().map(|ip| SocketAddr::new(ip, self.local.port())).collect())
    }

    /// Takes a connection that waits.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if none does; what the system refuses.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.listener.accept().map(|(stream, address)| (stream, canonical(address)))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Whether an error of [`Listener::accept`] concerns only the connection that it would have returned (accept(2), "Error
/// handling"). Any other would come again at once: descriptors or memory have run out.
#[must_use]
pub fn is_about_one_connection(error: &io::Error) -> bool {
    const ERRORS: [i32; 12] = [
        1,   // EPERM: a firewall's rule.
        4,   // EINTR
        64,  // ENONET
        71,  // EPROTO
        92,  // ENOPROTOOPT
        95,  // EOPNOTSUPP
        100, // ENETDOWN
        101, // ENETUNREACH
        103, // ECONNABORTED
        110, // ETIMEDOUT
        112, // EHOSTDOWN
        113, // EHOSTUNREACH
    ];
    error.raw_os_error().is_some_and(|number| ERRORS.contains(&number))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket =
        socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(address.port() != 0)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Error {
    let text = format!("listen on {address}: {error}");
    match error.kind() {
        io::ErrorKind::AddrInUse if address.port() == 0 => Error::Resource(format!(
            "{text} (no port is free: widen the sysctl net.ipv4.ip_local_port_range)"
        )),
        io::ErrorKind::AddrInUse => Error::System(format!(
            "{text} (another socket has it: choose another port, or 0 for any that is free)"
        )),
        io::ErrorKind::AddrNotAvailable => {
            Error::System(format!("{text} (no interface of this host has this address)"))
        }
        _ => Error::system(format!("listen on {address}"), error),
    }
}

fn list() -> Result<Vec<Interface>, Error> {
    interfaces().map_err(|error| Error::system("list the network interfaces", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(address: &str) -> Result<Listener, Error> {
        Listener::bind(&ListenOptions { address: address.into(), port: 0 })
    }

    #[test]
    fn an_address_is_taken_in_every_form() {
        for text in ["127.0.0.1", "127.0.0.1:0", "::1", "[::1]", "[::1]:0", "lo"] {
            if text.contains("::1") && TcpListener::bind("[::1]:0").is_err() {
                eprintln!("skipped {text}: this host has no IPv6");
                continue;
            }
            let addresses = bind(text).unwrap().addresses().unwrap();
            assert!(matches!(&addresses[..], [one] if one.ip().is_loopback() && one.port() != 0));
        }
        let error = bind("no-such-interface").unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArgument(text) if text.contains("no-such")),
            "{error}"
        );
    }

    #[test]
    fn asked_for_nothing_it_lists_loopback_last_and_takes_both_versions() {
        let listener = bind("").unwrap();
        let addresses = listener.addresses().unwrap();
        let first_loopback =
            addresses.iter().position(|address| address.ip().is_loopback()).unwrap();
        assert!(addresses[first_loopback..].iter().all(|address| address.ip().is_loopback()));
        for address in &addresses[first_loopback..] {
            TcpStream::connect(address).unwrap();
        }
    }
}
