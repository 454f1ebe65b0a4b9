//! `xattr`: no file of the rack has an extended attribute, since everything came over SSH.

use std::io;

use super::Call;

/// `xattr [-clrpdx] …`.
pub(in crate::sim::tools) fn xattr(call: &mut Call<'_>) -> io::Result<i32> {
    let flags: String = call.args.iter().filter_map(|a| a.strip_prefix('-')).collect();
    let mut operands: Vec<String> = call.args.iter().filter(|a| !a.starts_with('-')).cloned().collect();
    let named = flags.contains('d') || flags.contains('p');
    let name = if named && !operands.is_empty() { operands.remove(0) } else { String::new() };
    let mut status = 0;
    for arg in operands {
        let Some(place) = call.target(&arg)? else {
            status = 1;
            continue;
        };
        if !place.exists() {
            writeln!(call.err, "xattr: No such file: {arg}")?;
            status = 1;
        } else if named && !flags.contains('r') {
            writeln!(call.err, "xattr: {arg}: No such xattr: {name}")?;
            status = 1;
        }
    }
    Ok(status)
}
