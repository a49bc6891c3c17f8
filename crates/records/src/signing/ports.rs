//! Rights to one port of one sandbox until a time: sealed as links are, and of no use as one.

use super::{Signer, SigningError};
use serde::{Deserialize, Serialize};

/// By this beginning people and scanners know a right.
const PREFIX: &str = "pdp_";
const PORTS: &[u8] = b"paddock signed port 1\0";
/// A text that is longer is not read.
const LONGEST: usize = 1024;

/// The claim of a right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortClaim {
    pub sandbox: String,
    /// The creation of that sandbox. A sandbox that was created at another time is another one, whatever its id.
    pub created_ms: u64,
    pub port: u16,
    pub expires_ms: u64,
    /// The id of the token that it was signed for; the right ends with that token.
    pub token: String,
}

impl Signer {
    pub fn sign_port(&self, claim: &PortClaim) -> String {
        format!("{PREFIX}{}", self.seal(PORTS, claim))
    }

    pub fn verify_port(&self, right: &str, now_ms: u64) -> Result<PortClaim, SigningError> {
        let claim = self.port_claim(right)?;
        if claim.expires_ms <= now_ms {
            return Err(SigningError::Expired { expires_ms: claim.expires_ms });
        }
        Ok(claim)
    }

    /// True for every right that this key sealed, expired or not.
    pub fn has_signed_port(&self, text: &str) -> bool {
        self.port_claim(text).is_ok()
    }

    fn port_claim(&self, right: &str) -> Result<PortClaim, SigningError> {
        let sealed = right.strip_prefix(PREFIX).filter(|_| right.len() <= LONGEST);
        self.unseal(PORTS, sealed.ok_or(SigningError::Forged)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Claim, Operation};
    use super::*;

    fn claim() -> PortClaim {
        PortClaim {
            sandbox: "sb-0000000000000001".into(),
            created_ms: 5,
            port: 8000,
            expires_ms: 1000,
            token: "tk-0000000000000001".into(),
        }
    }

    #[test]
    fn a_right_comes_back_until_it_expires() {
        let signer = Signer::new([7; 32]);
        let right = signer.sign_port(&claim());
        assert!(right.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{right}");
        assert_eq!(signer.verify_port(&right, 999).unwrap(), claim());
        assert!(matches!(signer.verify_port(&right, 1000), Err(SigningError::Expired { expires_ms: 1000 })));
        assert!(signer.has_signed_port(&right));
        let other = Signer::new([8; 32]);
        assert!(matches!(other.verify_port(&right, 0), Err(SigningError::Forged)));
        assert!(!other.has_signed_port(&right));
    }

    #[test]
    fn no_character_of_a_right_can_be_changed_removed_or_added() {
        let signer = Signer::new([7; 32]);
        let right = signer.sign_port(&claim());
        for at in 0..right.len() {
            for other in [b'A', b'Q', b'-', b'.'] {
                let mut changed = right.clone().into_bytes();
                if changed[at] == other {
                    continue;
                }
                changed[at] = other;
                let changed = String::from_utf8(changed).unwrap();
                assert!(!signer.has_signed_port(&changed), "{changed}");
            }
            assert!(!signer.has_signed_port(&right[..at]));
        }
        for other in [format!("{right}A"), format!("A{right}"), format!("{PREFIX}{}", "x".repeat(LONGEST))] {
            assert!(!signer.has_signed_port(&other));
        }
    }

    #[test]
    fn a_link_to_a_file_is_no_right_and_a_right_is_no_link() {
        let signer = Signer::new([7; 32]);
        let link = signer.sign(&Claim {
            sandbox: "sb-0000000000000001".into(),
            path: "/a".into(),
            operation: Operation::Read,
            user: None,
            expires_ms: 1000,
            token: "tk-0000000000000001".into(),
        });
        let right = signer.sign_port(&claim());
        for text in [link.clone(), format!("{PREFIX}{link}")] {
            assert!(!signer.has_signed_port(&text), "{text}");
        }
        for text in [right.clone(), right.trim_start_matches(PREFIX).to_string()] {
            assert!(matches!(signer.verify(&text, 0), Err(SigningError::Forged)), "{text}");
        }
    }
}
