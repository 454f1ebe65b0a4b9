//! Room on the node's disk, from `df -k`.

/// Kilobytes that are free, on the file system that was asked about.
///
/// The columns are counted from the percent sign, because the first one may hold blanks (`map auto_home`).
pub fn available_kib(text: &str) -> Option<u64> {
    let row = text.lines().filter(|l| !l.trim().is_empty()).nth(1)?;
    let words: Vec<&str> = row.split_whitespace().collect();
    let percent = words.iter().position(|w| w.strip_suffix('%').is_some_and(|n| n.parse::<u32>().is_ok()))?;
    words.get(percent.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_df_are_read() {
        let mac = "Filesystem   1024-blocks      Used Available Capacity iused      ifree %iused  Mounted on\n/dev/disk3s5   482797652 378277460  76757888    84% 9110854  767578880    1%   /System/Volumes/Data\n";
        assert_eq!(available_kib(mac), Some(76_757_888));
        let linux = "Filesystem     1K-blocks      Used Available Use% Mounted on\noverlay        263174212 19000000 233174212   8% /\n";
        assert_eq!(available_kib(linux), Some(233_174_212));
        let odd = "Filesystem 1024-blocks Used Available Capacity iused ifree %iused  Mounted on\nmap auto_home          0    0         0   100%     0     0  100%   /System/Volumes/Data/home\n";
        assert_eq!(available_kib(odd), Some(0));
        for bad in ["", "df: /nope: No such file or directory", "a\nb\n", "x\n5% y\n"] {
            assert_eq!(available_kib(bad), None, "{bad}");
        }
    }
}
