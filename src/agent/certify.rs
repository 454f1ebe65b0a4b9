//! The cluster's own certificate authority. One is made at every deploy, signs the certificates of that deploy's
//! agents, and is gone with the process: its key is written nowhere, so nobody can steal it, nobody has to keep it,
//! and every deploy renews everything. Who may deploy is decided where it always was, by SSH and sudo.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Certificates hold for so long.
pub const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// And have held for so long already, because clocks jump.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(24);

/// What one agent gets: all three are PEM.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    /// The authority's certificate.
    pub authority: String,
    /// The agent's certificate.
    pub certificate: String,
    /// The agent's key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    /// Says nothing of the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The name that a rank's certificate carries. Ranks, not names of nodes: those need not be names of the DNS.
pub fn rank_name(rank: u32) -> String {
    format!("rank-{rank}.agents.macluster")
}

/// Identities for the ranks 0 to `ranks - 1`, and until when they hold.
///
/// # Errors
/// In words; there is no reason to expect one.
pub fn issue(ranks: u32, now: Timestamp) -> Result<(Vec<Identity>, Timestamp), String> {
    let issued = vec![now; usize::try_from(ranks).map_err(|e| e.to_string())?];
    Ok((issue_at(now, &issued)?, now + VALID))
}

/// Identities for the ranks from 0 on, each issued at its moment by one authority, itself issued at `authority`.
///
/// # Errors
/// As [`issue`].
pub fn issue_at(authority: Timestamp, moments: &[Timestamp]) -> Result<Vec<Identity>, String> {
    let trouble = |e: rcgen::Error| format!("cannot make certificates: {e}");
    let moment = |t: Timestamp| OffsetDateTime::from_unix_timestamp(t.as_second()).map_err(|e| e.to_string());
    let span = |issued: Timestamp| Ok::<_, String>((moment(issued - BACKDATED)?, moment(issued + VALID)?));
    let named = |name: &str| {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject
    };
    let mut params = CertificateParams::new(Vec::new()).map_err(trouble)?;
    params.distinguished_name = named("macluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = span(authority)?;
    let key = KeyPair::generate().map_err(trouble)?;
    let authority = params.self_signed(&key).map_err(trouble)?.pem();
    let issuer = Issuer::new(params, key);
    let one = |(rank, issued): (u32, &Timestamp)| {
        let mut params = CertificateParams::new(vec![rank_name(rank)]).map_err(trouble)?;
        params.distinguished_name = named("macluster agent");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = span(*issued)?;
        let key = KeyPair::generate().map_err(trouble)?;
        let certificate = params.signed_by(&key, &issuer).map_err(trouble)?.pem();
        Ok(Identity { authority: authority.clone(), certificate, key: key.serialize_pem() })
    };
    (0..).zip(moments).map(one).collect()
}
