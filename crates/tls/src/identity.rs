use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::SetupError;

/// A certificate with its chain, and its private key: who one end says that it is, and the proof.
#[derive(Debug)]
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl Identity {
    /// From texts in PEM: the certificate first, then those that lead to its root; and the key. Both may
    /// be the same text.
    ///
    /// # Errors
    /// [`SetupError::Pem`], [`SetupError::NoCertificate`], [`SetupError::NoKey`].
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, SetupError> {
        Ok(Self {
            chain: certificates(chain)?,
            key: PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
                Error::NoItemsFound => SetupError::NoKey,
                damaged => SetupError::Pem(damaged.to_string()),
            })?,
        })
    }
}

/// The certificates of a text in PEM, at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(SetupError::NoCertificate),
        Ok(found) => Ok(found),
        Err(damaged) => Err(SetupError::Pem(damaged.to_string())),
    }
}
