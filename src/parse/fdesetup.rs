//! `fdesetup status` (samples/power): its words count, its exit status differs between releases.

use super::words::nothing_found;
use crate::model::Fact;
use crate::model::host_facts::FileVault;

/// Whether the disk is locked before the first login after a start.
///
/// # Errors
/// Another shape.
pub fn parse(output: &str) -> Fact<FileVault> {
    let has = |words: &str| output.contains(words);
    if has("FileVault is On") {
        // While it is being decrypted the disk is still locked at a start.
        Ok(FileVault::On)
    } else if has("FileVault is Off") {
        let coming = has("Deferred enablement") || has("Encryption in progress");
        Ok(if coming { FileVault::Coming } else { FileVault::Off })
    } else {
        Err(nothing_found("fdesetup", "`FileVault is On.` or `FileVault is Off.`", output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_around_it_do_not_matter() {
        assert_eq!(parse("FileVault is Off.\n"), Ok(FileVault::Off));
        assert_eq!(parse("FileVault master keychain appears to be installed.\nFileVault is On.\n"), Ok(FileVault::On));
        assert_eq!(
            parse("FileVault is Off, Deferred enablement appears to be active for user 'x'.\n"),
            Ok(FileVault::Coming)
        );
        assert_eq!(parse("FileVault is Off.\nEncryption in progress: Percent completed = 12\n"), Ok(FileVault::Coming));
        assert!(parse("fdesetup: sorry\n").is_err());
    }
}
