//! `df -k PATH` (samples/storage): names and mount points may have blanks, so columns are counted around the percent
//! signs.

use super::words::{malformed, nothing_found};
use crate::model::Fact;
use crate::model::host_facts::Disk;

const TOOL: &str = "df";

/// The volume of the one path that was asked.
///
/// # Errors
/// Another shape.
pub fn parse(output: &str) -> Fact<Disk> {
    let mut lines = output.lines().enumerate();
    if !lines.any(|(_, l)| l.contains("1024-blocks") && l.contains("Available")) {
        return Err(nothing_found(TOOL, "a heading with 1024-blocks", output));
    }
    let Some((n, row)) = lines.find(|(_, l)| !l.trim().is_empty()) else {
        return Err(malformed(TOOL, None, "expected a volume below the heading"));
    };
    volume(row).ok_or_else(|| malformed(TOOL, Some(n + 1), "expected size, used, available, percent and mount point"))
}

/// `/dev/disk3s5   482797652 378277460  76757888    84% 9110854  767578880    1%   /System/Volumes/Data`.
fn volume(row: &str) -> Option<Disk> {
    let (before, after) = row.split_once("% ")?;
    let mut words = before.split_whitespace().rev();
    let (_capacity, available, _used, total) = (words.next()?, words.next()?, words.next()?, words.next()?);
    // The inode columns have a percent sign of their own.
    let mount = after.split_once("% ").map_or(after, |(_, m)| m).trim();
    Some(Disk { total_kib: total.parse().ok()?, available_kib: available.parse().ok()?, mount: mount.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_with_and_without_inodes() {
        let head = "Filesystem   1024-blocks      Used Available Capacity iused      ifree %iused  Mounted on\n";
        let row = "/dev/disk3s5   482797652 378277460  76757888    84% 9110854  767578880    1%   /Volumes/A Disk\n";
        let disk = parse(&format!("{head}{row}")).expect("reads");
        assert_eq!(
            (disk.total_kib, disk.available_kib, disk.mount.as_str()),
            (482_797_652, 76_757_888, "/Volumes/A Disk")
        );
        let posix = "Filesystem 1024-blocks Used Available Capacity  Mounted on\nmap auto_home 0 0 0 100%    /x\n";
        assert_eq!(parse(posix).expect("reads").mount, "/x");
        for bad in ["", head, "Filesystem 512-blocks Used Available\n", &format!("{head}/dev/disk3s5 a b c 1% /\n")] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
