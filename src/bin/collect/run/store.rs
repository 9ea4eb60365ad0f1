//! Where the ranks of a run meet: a store inside the launcher, or one that the caller names.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

use collect::store::TcpServer;

/// What the ranks are told about their store.
pub(crate) struct Meeting {
    pub(crate) url: String,
    /// `None`: what the launcher's own environment says.
    pub(crate) token: Option<String>,
    /// Serves as long as the run lasts.
    _server: Option<TcpServer>,
}

/// Starts the embedded store on a port of the system's choice, or takes the caller's.
pub(crate) fn serve_store(url: Option<&str>) -> Result<Meeting, String> {
    if let Some(url) = url {
        return Ok(Meeting { url: url.to_owned(), token: None, _server: None });
    }
    let token = random_token()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = TcpServer::start(address, Some(token.clone().into_bytes()))
        .map_err(|error| format!("start the store: {error}"))?;
    let url = format!("tcp://{}", server.address());
    Ok(Meeting { url, token: Some(token), _server: Some(server) })
}

/// 128 random bits in 32 hexadecimal digits.
fn random_token() -> Result<String, String> {
    let mut bits = [0u8; 16];
    getrandom::fill(&mut bits).map_err(|error| format!("make a token: {error}"))?;
    let mut token = String::new();
    for byte in bits {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_32_digits_and_differ() {
        let (one, other) = (random_token().unwrap(), random_token().unwrap());
        assert!(one.len() == 32 && one.chars().all(|c| c.is_ascii_hexdigit()), "{one}");
        assert_ne!(one, other);
    }
}
