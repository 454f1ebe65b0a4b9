//! `shasum`.

use std::fs::File;
use std::io::{self, Read};

use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::Call;

/// `shasum [-a 1|256|512] [FILE…]`; checking (`-c`) is not simulated.
pub(in crate::sim::tools) fn shasum(call: &mut Call<'_>) -> io::Result<i32> {
    let (mut algorithm, mut files) = ("1".to_owned(), Vec::new());
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-a" | "--algorithm" => algorithm = args.next().cloned().unwrap_or_default(),
            "-a256" => "256".clone_into(&mut algorithm),
            "-b" | "--binary" | "--" => {}
            flag if flag.starts_with('-') && flag.len() > 1 => {
                writeln!(call.err, "Unknown option: {}\nType shasum -h for help", flag.trim_start_matches('-'))?;
                return Ok(1);
            }
            file => files.push(file.to_owned()),
        }
    }
    if !["1", "256", "512"].contains(&algorithm.as_str()) {
        writeln!(call.err, "shasum: Unrecognized algorithm\nType shasum -h for help")?;
        return Ok(1);
    }
    if files.is_empty() {
        files.push("-".to_owned());
    }
    let mut status = 0;
    for arg in files {
        let digest = if arg == "-" {
            digest(&algorithm, call.stdin)?
        } else {
            let Some(place) = call.target(&arg)? else {
                status = 1;
                continue;
            };
            if !call.may_read(&arg, &place)? {
                status = 1;
                continue;
            }
            if place.is_dir() {
                call.complain(&arg, "Is a directory")?;
                status = 1;
                continue;
            }
            match File::open(&place).and_then(|mut f| digest(&algorithm, &mut f)) {
                Ok(digest) => digest,
                Err(e) => {
                    // Guess: the sample only says that there is a message and exit 1.
                    call.failed(&arg, &e)?;
                    status = 1;
                    continue;
                }
            }
        };
        writeln!(call.out, "{digest}  {arg}")?;
    }
    Ok(status)
}

fn digest(algorithm: &str, input: &mut dyn Read) -> io::Result<String> {
    match algorithm {
        "1" => hash::<Sha1>(input),
        "512" => hash::<Sha512>(input),
        _ => hash::<Sha256>(input),
    }
}

fn hash<D: Digest>(input: &mut dyn Read) -> io::Result<String> {
    let mut hasher = D::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok(hex::encode(hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}
