//! Where a server listens: flags, else `PADDOCK_URL`, else the socket of its state directory. The commands look in the
//! same place when they have the same environment.

use super::ServeError;
use crate::caller::Environment;
use crate::client::{Address, address};
use crate::commands::CommandError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Eq)]
pub struct Places {
    pub socket: PathBuf,
    pub address: Option<SocketAddr>,
}

impl Places {
    pub fn choose(
        socket: Option<&Path>,
        listen: Option<SocketAddr>,
        environment: &Environment,
        state_dir: &Path,
    ) -> Result<Places, CommandError> {
        let own = || address::own_socket(environment, state_dir);
        if socket.is_some() || listen.is_some() {
            return Ok(Places { socket: socket.map_or_else(own, Path::to_path_buf), address: listen });
        }
        match address::configured(environment)? {
            None => Ok(Places { socket: own(), address: None }),
            Some(Address::Unix(socket)) => Ok(Places { socket, address: None }),
            Some(url) => {
                let address =
                    here(&url).map_err(|reason| ServeError::Place { value: url.to_string(), reason })?;
                Ok(Places { socket: own(), address: Some(address) })
            }
        }
    }
}

fn here(url: &Address) -> Result<SocketAddr, &'static str> {
    let Address::Tcp { host, port, tls } = url else { return Err("it is a socket") };
    if *tls {
        return Err("https needs --listen, --tls-cert and --tls-key");
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, *port)),
        Err(_) if bare == "localhost" => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), *port)),
        Err(_) => Err("it is a name, and a server listens on addresses"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(host: &str, port: u16, tls: bool) -> Address {
        Address::Tcp { host: host.into(), port, tls }
    }

    #[test]
    fn only_an_address_of_a_machine_is_listened_on() {
        assert_eq!(here(&url("127.0.0.1", 7070, false)), Ok("127.0.0.1:7070".parse().unwrap()));
        assert_eq!(here(&url("localhost", 7070, false)), Ok("127.0.0.1:7070".parse().unwrap()));
        assert_eq!(here(&url("[::1]", 80, false)), Ok("[::1]:80".parse().unwrap()));
        assert!(here(&url("box.example.org", 443, true)).is_err());
        assert!(here(&url("box.example.org", 80, false)).is_err());
    }
}
