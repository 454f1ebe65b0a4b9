//! Mutual TLS 1.3 between agents: both sides show a certificate of the cluster's authority, or nothing is said.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::certify::{Identity, rank_name};
use super::layout::Layout;

/// Reads what deploy has laid down.
///
/// # Errors
/// In words, with the path.
pub fn read(layout: &Layout) -> Result<Identity, String> {
    let file = |name: &str| {
        let path = layout.tls_file(name);
        std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))
    };
    Ok(Identity { authority: file("ca.pem")?, certificate: file("agent.pem")?, key: file("agent.key")? })
}

fn roots(identity: &Identity) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(identity.authority.as_bytes()) {
        let certificate = certificate.map_err(|e| format!("the authority's certificate: {e}"))?;
        roots.add(certificate).map_err(|e| format!("the authority's certificate: {e}"))?;
    }
    Ok(Arc::new(roots))
}

fn own(identity: &Identity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| format!("the agent's certificate: {e}"))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|e| format!("the agent's key: {e}"))?;
    Ok((chain, key))
}

/// For rank 0's agent. No session is ever resumed and no early data taken: a recorded handshake is worth nothing.
///
/// # Errors
/// In words.
pub fn acceptor(identity: &Identity) -> Result<TlsAcceptor, String> {
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(identity)?, Arc::clone(&provider))
        .build()
        .map_err(|e| format!("TLS: {e}"))?;
    let (chain, key) = own(identity)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| format!("TLS: {e}"))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|e| format!("TLS: {e}"))?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// For the agents of all other ranks.
///
/// # Errors
/// In words.
pub fn connector(identity: &Identity) -> Result<TlsConnector, String> {
    let (chain, key) = own(identity)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| format!("TLS: {e}"))?
        .with_root_certificates(roots(identity)?)
        .with_client_auth_cert(chain, key)
        .map_err(|e| format!("TLS: {e}"))?;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that rank's certificate must carry.
///
/// # Errors
/// Never for a number; the type asks for it.
pub fn name_of(rank: u32) -> Result<ServerName<'static>, String> {
    ServerName::try_from(rank_name(rank)).map_err(|e| e.to_string())
}

/// Whether a certificate, verified already, is that rank's.
pub fn is_rank(certificate: &CertificateDer<'_>, rank: u32) -> bool {
    let (Ok(certificate), Ok(name)) = (webpki::EndEntityCert::try_from(certificate), name_of(rank)) else {
        return false;
    };
    certificate.verify_is_valid_for_subject_name(&name).is_ok()
}
