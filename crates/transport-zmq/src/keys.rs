use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use crypto_box::{PublicKey, SecretKey};

/// Tokens below this are too easily guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Two ends derive the same keys although they can't agree on a salt first. It sets these keys apart
/// from whatever else a token is used for.
const SALT: &[u8] = b"ridgeline transport curve 1";

/// Argon2id: 19 MiB, two passes, one lane, which is what OWASP recommends at the least.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;

/// The keys of both sides of CURVE, from one shared token.
///
/// Whoever has the token has all four keys: it may listen, and it may connect, and everybody else can do
/// neither. 64 bytes of Argon2id (19,456 KiB, 2 passes, 1 lane, salt `ridgeline transport curve 1`) over
/// the token are the secret key of the side that listens, and the secret key of the side that connects, 32
/// bytes each. Memory-hard, because tokens are chosen by people, and because a guess can be tried against
/// a recorded handshake; it takes some tens of milliseconds, once, at start.
///
/// ```
/// use ridgeline_transport_zmq::Keys;
/// let keys = Keys::from_token("correct horse battery staple")?;
/// let z85 = keys.z85();
/// assert_eq!(z85.listening_public.len(), 40);
/// # Ok::<(), ridgeline_transport_zmq::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    pub(crate) listening: SecretKey,
    pub(crate) connecting: SecretKey,
}

/// Why a token gives no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It can be guessed.
    #[error(
        "the token has {0} bytes; use one of at least {TOKEN_BYTES_MIN}, as from: openssl rand -base64 24"
    )]
    Short(usize),
    /// The derivation failed: there is no memory for it.
    #[error(
        "no keys could be derived from the token: there are not {MEMORY_KIB} KiB of memory for it"
    )]
    Memory,
}

/// The same keys as other ZeroMQ libraries take them: 40 printable characters each.
#[derive(Clone, PartialEq, Eq)]
pub struct Z85Keys {
    /// Of the side that listens: `curve_publickey` there, `curve_serverkey` of the side that connects.
    pub listening_public: String,
    /// Of the side that listens: `curve_secretkey` there.
    pub listening_secret: String,
    /// Of the side that connects: `curve_publickey` there.
    pub connecting_public: String,
    /// Of the side that connects: `curve_secretkey` there.
    pub connecting_secret: String,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl fmt::Debug for Z85Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Z85Keys")
            .field("listening_public", &self.listening_public)
            .field("connecting_public", &self.connecting_public)
            .finish_non_exhaustive()
    }
}

impl Keys {
    /// Derives them. White space around the token, as a file's last line has, does not count.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_token(token: &str) -> Result<Self, KeyError> {
        let token = token.trim();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(KeyError::Short(token.len()));
        }
        let mut bytes = [0; 64];
        let params = Params::new(MEMORY_KIB, PASSES, 1, Some(bytes.len()));
        let argon = Argon2::new(
            Algorithm::Argon2id,
            Version::V0x13,
            params.map_err(|_| KeyError::Memory)?,
        );
        argon
            .hash_password_into(token.as_bytes(), SALT, &mut bytes)
            .map_err(|_| KeyError::Memory)?;
        let (mut listening, mut connecting) = ([0; 32], [0; 32]);
        listening.copy_from_slice(&bytes[..32]);
        connecting.copy_from_slice(&bytes[32..]);
        Ok(Self {
            listening: SecretKey::from_bytes(listening),
            connecting: SecretKey::from_bytes(connecting),
        })
    }

    /// As other libraries take them, pyzmq among them.
    #[must_use]
    pub fn z85(&self) -> Z85Keys {
        Z85Keys {
            listening_public: z85(self.listening_public().as_bytes()),
            listening_secret: z85(&self.listening.to_bytes()),
            connecting_public: z85(self.connecting_public().as_bytes()),
            connecting_secret: z85(&self.connecting.to_bytes()),
        }
    }

    pub(crate) fn listening_public(&self) -> PublicKey {
        self.listening.public_key()
    }

    pub(crate) fn connecting_public(&self) -> PublicKey {
        self.connecting.public_key()
    }
}

/// Four bytes become five characters (ZeroMQ RFC 32).
fn z85(key: &[u8; 32]) -> String {
    const DIGITS: &[u8; 85] =
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let mut text = String::with_capacity(40);
    for four in key.chunks_exact(4) {
        let number = four
            .iter()
            .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        for place in (0..5).rev() {
            let digit = number / 85_u32.pow(place) % 85;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_always_gives_the_same_keys() {
        let keys = Keys::from_token("correct horse battery staple").unwrap();
        let again = Keys::from_token(" correct horse battery staple\n").unwrap();
        let other = Keys::from_token("correct horse battery stapler").unwrap();
        assert!(keys.z85() == again.z85());
        assert!(keys.z85() != other.z85());
        assert_ne!(keys.z85().listening_public, keys.z85().connecting_public);
        let shown = format!("{keys:?} {:?}", keys.z85());
        assert!(!shown.contains(&keys.z85().listening_secret), "{shown}");
    }

    #[test]
    fn short_tokens_are_refused() {
        let error = Keys::from_token("  fifteen bytes..\n").unwrap_err();
        assert_eq!(error, KeyError::Short(15));
        assert!(error.to_string().contains("at least 16"));
    }

    #[test]
    fn z85_is_that_of_its_specification() {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&[0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]);
        assert!(z85(&key).starts_with("HelloWorld00000"));
    }
}
