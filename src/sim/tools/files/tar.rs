//! `tar`: what bsdtar does with the archives macluster streams.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder, EntryType};

use super::{Call, unshare};
use crate::sim::owners;
use crate::sim::program::inside;

/// What is asked for.
#[derive(Default)]
struct Options {
    mode: Option<char>,
    file: Option<String>,
    folder: Option<String>,
    verbose: bool,
    members: Vec<String>,
}

/// `tar -x|-c|-t [-f FILE|-] [-C DIR] [-mpv] [MEMBER…]`.
pub(in crate::sim::tools) fn tar(call: &mut Call<'_>) -> io::Result<i32> {
    let options = match parse(call.args) {
        Ok(options) => options,
        Err(text) => return writeln!(call.err, "tar: {text}").map(|()| 1),
    };
    let folder = options.folder.clone().unwrap_or_else(|| ".".to_owned());
    let Some(base) = call.target(&folder)? else { return Ok(1) };
    if !base.is_dir() {
        return writeln!(call.err, "tar: could not chdir to '{folder}'").map(|()| 1);
    }
    match options.mode {
        Some('x' | 't') => extract(call, &options, &base),
        Some('c') => create(call, &options, &base),
        _ => writeln!(call.err, "tar: Must specify one of -c, -r, -t, -u, -x").map(|()| 1),
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    let mut first = true;
    while let Some(arg) = args.next() {
        let letters = match arg.strip_prefix('-') {
            Some(letters) if !letters.starts_with('-') && !letters.is_empty() => letters,
            Some("-") => break,
            Some(_) if arg.len() > 1 => return Err(format!("Option {arg} is not supported")),
            // `tar xf -`: the dash of the first word may be left out.
            None if first => arg,
            _ => {
                options.members.push(arg.clone());
                first = false;
                continue;
            }
        };
        first = false;
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            match letter {
                'x' | 'c' | 't' => options.mode = Some(letter),
                'v' => options.verbose = true,
                'm' | 'p' | 'o' => {}
                'f' | 'C' => {
                    let rest: String = letters.by_ref().collect();
                    let value = if rest.is_empty() { args.next().cloned() } else { Some(rest) };
                    let value = value.ok_or(format!("Option -{letter} requires an argument"))?;
                    if letter == 'f' {
                        options.file = Some(value);
                    } else {
                        options.folder = Some(value);
                    }
                }
                other => return Err(format!("Option -{other} is not supported")),
            }
        }
    }
    options.members.extend(args.cloned());
    Ok(options)
}

fn extract(call: &mut Call<'_>, options: &Options, base: &Path) -> io::Result<i32> {
    let from_file = match options.file.as_deref() {
        None | Some("-") => None,
        Some(name) => match call.target(name)? {
            Some(place) => match fs::File::open(&place) {
                Ok(file) => Some(file),
                Err(e) => {
                    let why = super::errno_text(&e);
                    return writeln!(call.err, "tar: Error opening archive: Failed to open '{name}': {why}")
                        .map(|()| 1);
                }
            },
            None => return Ok(1),
        },
    };
    if options.mode == Some('x') && !call.may_write_entry(".", &base.join("x"))? {
        return Ok(1);
    }
    let stdin: &mut dyn Read = &mut *call.stdin;
    let input: Box<dyn Read + '_> = match from_file {
        Some(file) => Box::new(file),
        None => Box::new(stdin),
    };
    let mut made = Vec::new();
    let mut unpack =
        Unpack { node: call.node, out: call.out, err: call.err, base, options, made: &mut made, failed: false };
    let result = unpack.all(input);
    let failed = unpack.failed;
    owners::created(call.node, call.uid, &made)?;
    match result {
        Ok(()) if failed => writeln!(call.err, "tar: Error exit delayed from previous errors.").map(|()| 1),
        Ok(()) => Ok(0),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => writeln!(
            call.err,
            "tar: Truncated input file (needed more bytes)\ntar: Error exit delayed from previous errors."
        )
        .map(|()| 1),
        Err(_) => writeln!(call.err, "tar: Error opening archive: Unrecognized archive format").map(|()| 1),
    }
}

/// An archive being unpacked.
struct Unpack<'a> {
    node: &'a crate::sim::store::Node,
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    base: &'a Path,
    options: &'a Options,
    made: &'a mut Vec<PathBuf>,
    failed: bool,
}

impl Unpack<'_> {
    fn all(&mut self, input: impl Read) -> io::Result<()> {
        let mut archive = Archive::new(input);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let name = entry.path()?.into_owned();
            let shown = name.display().to_string();
            if self.options.mode == Some('t') {
                writeln!(self.out, "{shown}")?;
                continue;
            }
            if self.options.verbose {
                writeln!(self.err, "x {shown}")?;
            }
            // bsdtar refuses `..` and takes the leading slash off.
            if name.components().any(|c| c == Component::ParentDir) {
                writeln!(self.err, "{shown}: Path contains '..'")?;
                self.node.trip(&format!("tar member {shown}"));
                self.failed = true;
                continue;
            }
            let relative: PathBuf = name.components().filter(|c| matches!(c, Component::Normal(_))).collect();
            let Some(place) = inside(self.node, &self.base.join(&relative)) else {
                writeln!(self.err, "{shown}: Cannot extract through symlink")?;
                self.node.trip(&format!("tar member through a link: {shown}"));
                self.failed = true;
                continue;
            };
            if let Err(e) = self.one(&mut entry, &place) {
                // An archive that ends early is the archive's fault, everything else the member's.
                if e.kind() == io::ErrorKind::UnexpectedEof {
                    return Err(e);
                }
                writeln!(self.err, "{shown}: Can't create '{shown}': {}", super::errno_text(&e))?;
                self.failed = true;
            }
        }
        Ok(())
    }

    fn one<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>, place: &Path) -> io::Result<()> {
        let mode = entry.header().mode()? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                fs::create_dir_all(place)?;
                fs::set_permissions(place, fs::Permissions::from_mode(mode | 0o700))?;
            }
            EntryType::Symlink => {
                let link = entry.link_name()?.map(std::borrow::Cow::into_owned).unwrap_or_default();
                let folder = place.parent().unwrap_or(place);
                fs::create_dir_all(folder)?;
                if inside(self.node, &folder.join(&link)).is_none() {
                    self.node.trip(&format!("tar member is a link that leads outside: {}", place.display()));
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
                let _ = fs::remove_file(place);
                symlink(link, place)?;
            }
            EntryType::Regular | EntryType::Continuous => {
                fs::create_dir_all(place.parent().unwrap_or(place))?;
                unshare(place)?;
                // A link in the file's place is replaced, not followed.
                let _ = fs::remove_file(place);
                let mut file = fs::OpenOptions::new().write(true).create_new(true).open(place)?;
                let size = entry.size();
                if io::copy(entry, &mut file)? < size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                fs::set_permissions(place, fs::Permissions::from_mode(mode))?;
            }
            _ => return Ok(()),
        }
        self.made.push(place.to_owned());
        Ok(())
    }
}

fn create(call: &mut Call<'_>, options: &Options, base: &Path) -> io::Result<i32> {
    if options.file.as_deref().is_some_and(|f| f != "-") {
        writeln!(call.err, "macsim: tar -c is simulated to standard output only")?;
        return Ok(1);
    }
    let mut status = 0;
    let mut found = Vec::new();
    for member in &options.members {
        let path = base.join(member);
        match inside(call.node, &path) {
            Some(place) if fs::symlink_metadata(&place).is_ok() => found.push((member.clone(), place)),
            Some(_) => {
                writeln!(call.err, "tar: {member}: Cannot stat: No such file or directory")?;
                status = 1;
            }
            None => {
                call.refuse(member)?;
                status = 1;
            }
        }
    }
    let mut archive = Builder::new(&mut *call.out);
    archive.follow_symlinks(false);
    for (name, place) in found {
        if place.is_dir() {
            archive.append_dir_all(&name, &place)?;
        } else {
            archive.append_path_with_name(&place, &name)?;
        }
    }
    archive.finish()?;
    drop(archive);
    if status != 0 {
        writeln!(call.err, "tar: Error exit delayed from previous errors.")?;
    }
    Ok(status)
}
