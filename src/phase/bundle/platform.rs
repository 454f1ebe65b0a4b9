//! What a bundle is built for, and whether a program or a wheel belongs there.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A platform that bundles are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Platform {
    /// Apple silicon, macOS 26 or newer (mlx's wheels are tagged `macosx_26_0_arm64`).
    #[serde(rename = "macos-arm64")]
    MacosArm64,
    /// 64-bit Intel or AMD Linux with glibc 2.35 or newer: simulated racks.
    #[serde(rename = "linux-x86_64")]
    LinuxX8664,
}

impl Platform {
    /// Every platform.
    pub const ALL: [Platform; 2] = [Platform::MacosArm64, Platform::LinuxX8664];

    /// The platform this program was built for; none when bundles are not built for it.
    pub fn host() -> Option<Platform> {
        match (std::env::consts::OS, std::env::consts::ARCH) {
            ("macos", "aarch64") => Some(Platform::MacosArm64),
            ("linux", "x86_64") => Some(Platform::LinuxX8664),
            _ => None,
        }
    }

    /// As `uname -sm` prints it: `Darwin arm64`, `Linux x86_64`.
    pub fn from_uname(text: &str) -> Option<Platform> {
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["Darwin", "arm64"] => Some(Platform::MacosArm64),
            ["Linux", "x86_64"] => Some(Platform::LinuxX8664),
            _ => None,
        }
    }

    /// The word used in manifests and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Platform::MacosArm64 => "macos-arm64",
            Platform::LinuxX8664 => "linux-x86_64",
        }
    }

    /// The processor's architecture, as `uname -m` prints it there.
    pub fn architecture(self) -> &'static str {
        match self {
            Platform::MacosArm64 => "arm64",
            Platform::LinuxX8664 => "x86_64",
        }
    }

    /// Refuses a program that cannot run there, from its first 20 bytes.
    ///
    /// # Errors
    /// What the file is instead.
    pub fn accepts_program(self, head: &[u8]) -> Result<(), String> {
        let found = program_kind(head);
        if found == self.program() { Ok(()) } else { Err(format!("it is {found}, not {}", self.program())) }
    }

    fn program(self) -> &'static str {
        match self {
            Platform::MacosArm64 => "a Mach-O arm64 program",
            Platform::LinuxX8664 => "an ELF x86-64 program",
        }
    }

    /// Whether one platform tag of a wheel (`macosx_26_0_arm64`, `manylinux_2_28_x86_64`, `any`) fits.
    fn accepts_tag(self, tag: &str) -> bool {
        if tag == "any" {
            return true;
        }
        match self {
            Platform::MacosArm64 => {
                tag.starts_with("macosx_") && (tag.ends_with("_arm64") || tag.ends_with("_universal2"))
            }
            Platform::LinuxX8664 => {
                (tag.starts_with("manylinux") || tag.starts_with("linux")) && tag.ends_with("_x86_64")
            }
        }
    }

    /// Whether a wheel of that file name installs on this platform under this Python minor (`3.12`).
    ///
    /// # Errors
    /// Which part of the name does not fit.
    pub fn accepts_wheel(self, file: &str, minor: &str) -> Result<(), String> {
        let stem = file.strip_suffix(".whl").ok_or_else(|| format!("{file} is no wheel"))?;
        let parts: Vec<&str> = stem.split('-').collect();
        let [.., python, abi, platform] = parts.as_slice() else {
            return Err(format!("{file} has no name of a wheel"));
        };
        if parts.len() < 5 {
            return Err(format!("{file} has no name of a wheel"));
        }
        if !platform.split('.').any(|t| self.accepts_tag(t)) {
            return Err(format!("{file} is built for {platform}, not for {self}"));
        }
        let exact = format!("cp{}", minor.replace('.', ""));
        let number = |tag: &str| tag.strip_prefix("cp3").and_then(|n| n.parse::<u32>().ok());
        let wanted = number(&exact).unwrap_or(0);
        let fits = python.split('.').any(|tag| {
            tag == exact
                || tag == "py3"
                || (tag.starts_with("py3") && tag[3..].parse::<u32>().is_ok_and(|n| n <= wanted))
                // The stable ABI is good for every later minor.
                || (*abi == "abi3" && number(tag).is_some_and(|n| n <= wanted))
        });
        if fits { Ok(()) } else { Err(format!("{file} is built for {python}, not for Python {minor}")) }
    }
}

/// What a file is by its first bytes: ELF header (System V ABI) or Mach-O header (`mach-o/loader.h`).
fn program_kind(head: &[u8]) -> &'static str {
    let word = |at: usize| head.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    match word(0) {
        // MH_MAGIC_64, then CPU_TYPE_ARM64 or CPU_TYPE_X86_64.
        Some(0xfeed_facf) => match word(4) {
            Some(0x0100_000c) => "a Mach-O arm64 program",
            Some(0x0100_0007) => "a Mach-O x86-64 program",
            _ => "a Mach-O program of another processor",
        },
        // FAT_MAGIC, big endian in the file.
        Some(0xbeba_feca) => "a universal Mach-O file (give the arm64 half: lipo -thin arm64)",
        Some(0x464c_457f) => match (head.get(4), head.get(18)) {
            (Some(2), Some(62)) => "an ELF x86-64 program",
            (Some(2), Some(183)) => "an ELF arm64 program",
            _ => "an ELF program of another processor",
        },
        _ if head.starts_with(b"#!") => "a script",
        _ => "no program",
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s == "host" {
            return Platform::host().ok_or_else(|| {
                format!(
                    "bundles are not built for {} {}; name macos-arm64 or linux-x86_64",
                    std::env::consts::OS,
                    std::env::consts::ARCH
                )
            });
        }
        Platform::ALL
            .into_iter()
            .find(|p| p.as_str() == s)
            .ok_or_else(|| format!("`{}` is no platform: use macos-arm64, linux-x86_64 or host", s.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_other_platforms_are_named() {
        let mut elf = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
        assert_eq!(Platform::LinuxX8664.accepts_program(&elf), Ok(()));
        let why = Platform::MacosArm64.accepts_program(&elf).expect_err("an ELF file");
        assert!(why.contains("ELF x86-64") && why.contains("Mach-O arm64"), "{why}");
        elf[18] = 183;
        assert!(Platform::LinuxX8664.accepts_program(&elf).is_err());
        let macho = [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(Platform::MacosArm64.accepts_program(&macho), Ok(()));
        let intel = [0xcf, 0xfa, 0xed, 0xfe, 0x07, 0, 0, 1];
        assert!(Platform::MacosArm64.accepts_program(&intel).is_err());
        for junk in [&b""[..], b"\xcf\xfa", b"#!/bin/sh\n", b"MZ\x90\0", &[0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 2]] {
            assert!(Platform::MacosArm64.accepts_program(junk).is_err(), "{junk:?}");
            assert!(Platform::LinuxX8664.accepts_program(junk).is_err(), "{junk:?}");
        }
    }

    #[test]
    fn wheels_are_taken_by_their_tags() {
        let mac = Platform::MacosArm64;
        let linux = Platform::LinuxX8664;
        for (platform, file) in [
            (mac, "mlx-0.32.4-cp312-cp312-macosx_26_0_arm64.whl"),
            (mac, "safetensors-0.9.1-cp38-abi3-macosx_11_0_arm64.whl"),
            (mac, "jinja2-3.1.6-py3-none-any.whl"),
            (mac, "x-1.0-py2.py3-none-any.whl"),
            (mac, "x-1.0-cp312-cp312-macosx_10_13_universal2.whl"),
            (mac, "x-1.0-1build-py3-none-any.whl"),
            (linux, "mlx-0.32.4-cp312-cp312-manylinux_2_35_x86_64.whl"),
            (linux, "uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"),
        ] {
            assert_eq!(platform.accepts_wheel(file, "3.12"), Ok(()), "{file}");
        }
        for (platform, file) in [
            (mac, "mlx-0.32.4-cp311-cp311-macosx_26_0_arm64.whl"),
            (mac, "mlx-0.32.4-cp312-cp312-manylinux_2_35_x86_64.whl"),
            (mac, "x-1.0-cp312-cp312-macosx_10_13_x86_64.whl"),
            (mac, "safetensors-0.9.1-cp313-abi3-macosx_11_0_arm64.whl"),
            (linux, "mlx-0.32.4-cp312-cp312-macosx_26_0_arm64.whl"),
            (linux, "x-1.0-cp312-cp312-musllinux_1_2_x86_64.whl"),
            (linux, "x-1.0.tar.gz"),
            (linux, "x.whl"),
        ] {
            assert!(platform.accepts_wheel(file, "3.12").is_err(), "{file}");
        }
    }

    #[test]
    fn uname_and_words_are_understood() {
        assert_eq!(Platform::from_uname("Darwin arm64\n"), Some(Platform::MacosArm64));
        assert_eq!(Platform::from_uname("Darwin x86_64\n"), None);
        assert_eq!("linux-x86_64".parse(), Ok(Platform::LinuxX8664));
        assert!("windows".parse::<Platform>().is_err());
    }
}
