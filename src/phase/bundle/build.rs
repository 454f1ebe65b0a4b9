//! Builds a bundle: download, check, assemble beside its final place, move there in one step.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::manifest::{FileEntry, MANIFEST_FILE, MANIFEST_VERSION, Manifest, sha256_file};
use super::notices::{Entry, NOTICES_FILE, OWN_LICENCE, compose};
use super::platform::Platform;
use super::wheel_info::WheelInfo;
use super::{archive, inspect, locks, pip, sources, wheel};
use crate::event::{Event, Events};
use crate::exit::{Exit, Failure};

/// Python minor when neither an interpreter nor the caller says one.
pub const DEFAULT_MINOR: &str = "3.12";

/// What to build.
#[derive(Clone, Debug)]
pub struct Request {
    /// For which nodes.
    pub platform: Platform,
    /// Where bundles are kept: the result is `<out>/<id>`.
    pub out: PathBuf,
    /// Where downloads are kept.
    pub cache: PathBuf,
    /// The macluster program of that platform; none = this program.
    pub agent: Option<PathBuf>,
    /// A relocatable Python for the nodes, and its SHA-256.
    pub python: Option<(PathBuf, String)>,
    /// The Python minor on the nodes.
    pub minor: Option<String>,
    /// The Python that downloads.
    pub pip_python: Option<PathBuf>,
}

/// A finished bundle.
#[derive(Clone, Debug)]
pub struct Built {
    /// Its folder.
    pub dir: PathBuf,
    /// What is inside.
    pub manifest: Manifest,
    /// It was there already, unchanged.
    pub reused: bool,
}

/// The folder macluster keeps things in that can be made again: `$MACLUSTER_CACHE`, else the platform's cache folder.
///
/// # Errors
/// Without a home folder.
pub fn cache_dir() -> Result<PathBuf, Failure> {
    use etcetera::BaseStrategy;
    if let Some(dir) = std::env::var_os("MACLUSTER_CACHE").filter(|d| !d.is_empty()) {
        return std::path::absolute(PathBuf::from(dir)).map_err(|e| failed(format!("MACLUSTER_CACHE: {e}")));
    }
    etcetera::choose_base_strategy()
        .map(|base| base.cache_dir().join("macluster"))
        .map_err(|e| failed(format!("no cache folder: {e}")).hint("set MACLUSTER_CACHE"))
}

fn failed(why: impl Into<String>) -> Failure {
    Failure::new(Exit::Unexpected, why)
}

/// Builds it.
///
/// # Errors
/// In words, with the next action.
pub async fn build(request: &Request, events: &Events) -> Result<Built, Failure> {
    let agent = program(request)?;
    std::fs::create_dir_all(&request.out)
        .map_err(|e| failed(format!("cannot create {}: {e}", request.out.display())))?;
    // Beside the final place, so that the move is one step; removed by itself when anything fails.
    let scratch = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(&request.out)
        .map_err(|e| failed(format!("cannot write to {}: {e}", request.out.display())))?;
    let dir = scratch.path().to_owned();
    let interpreter = match &request.python {
        Some((archive, sum)) => Some(relocatable(archive, sum, &dir, events).await?),
        None => None,
    };
    let pip = pip::find(request.pip_python.as_deref()).await?;
    let minor = minor(request, interpreter.as_ref(), &pip)?;
    let wheels = download(request, &pip, &minor, events).await?;

    let plan = Assembly { dir, agent, platform: request.platform, minor, interpreter, wheels };
    let what = "assembling the bundle".to_owned();
    events.emit(Event::TaskStarted { node: None, what: what.clone() });
    let progress = {
        let (events, what) = (events.clone(), what.clone());
        move |done, total| events.emit(Event::Progress { node: None, what: what.clone(), done, total })
    };
    let assembled = tokio::task::spawn_blocking(move || plan.run(&progress))
        .await
        .unwrap_or_else(|e| Err(format!("the assembly broke: {e}")));
    events.emit(Event::TaskDone { node: None, what, error: assembled.clone().err() });
    let manifest = assembled.map_err(failed)?;
    settle(&request.out, scratch, manifest)
}

/// Moves the finished folder to its place; one that is there already, and whole, is kept.
fn settle(out: &Path, scratch: tempfile::TempDir, manifest: Manifest) -> Result<Built, Failure> {
    let target = out.join(&manifest.id);
    if target.exists() {
        let whole = Manifest::read(&target).and_then(|m| m.verify(&target, &[], &mut |_| {}));
        if whole.is_ok() {
            return Ok(Built { dir: target, manifest, reused: true });
        }
        // Somebody changed it: the fresh one takes its place.
        std::fs::remove_dir_all(&target).map_err(|e| failed(format!("cannot replace {}: {e}", target.display())))?;
    }
    let fresh = scratch.keep();
    // The temporary folder is private; a bundle is not.
    let readable = std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755));
    if let Err(e) = readable.and_then(|()| std::fs::rename(&fresh, &target)) {
        let _ = std::fs::remove_dir_all(&fresh);
        return Err(failed(format!("cannot create {}: {e}", target.display())));
    }
    Ok(Built { dir: target, manifest, reused: false })
}

/// The macluster program for the nodes, proven to be one of their platform.
fn program(request: &Request) -> Result<PathBuf, Failure> {
    let platform = request.platform;
    let path = match &request.agent {
        Some(path) => path.clone(),
        None if Platform::host() == Some(platform) => {
            std::env::current_exe().map_err(|e| failed(format!("cannot find this program's own file: {e}")))?
        }
        None => {
            return Err(failed(format!(
                "this macluster is not built for {platform}, and the bundle needs one that is"
            ))
            .hint(format!("build macluster for {platform} (on such a machine, or with a cross compiler)"))
            .hint("then name it: --agent PATH"));
        }
    };
    let mut head = Vec::new();
    File::open(&path)
        .and_then(|f| f.take(20).read_to_end(&mut head))
        .map_err(|e| failed(format!("cannot read {}: {e}", path.display())))?;
    platform
        .accepts_program(&head)
        .map_err(|why| failed(format!("{} does not run on {platform}: {why}", path.display())))?;
    Ok(path)
}

async fn relocatable(archive: &Path, sum: &str, dir: &Path, events: &Events) -> Result<archive::Unpacked, Failure> {
    let what = "unpacking Python".to_owned();
    events.emit(Event::TaskStarted { node: None, what: what.clone() });
    let (archive, sum, target) = (archive.to_owned(), sum.to_ascii_lowercase(), dir.join("python"));
    let unpacked = tokio::task::spawn_blocking(move || {
        let found =
            sha256_file(&archive, &mut |_| {}).map_err(|e| format!("cannot read {}: {e}", archive.display()))?;
        if found != sum {
            return Err(format!("{} has SHA-256 {found}, {sum} was given: not used", archive.display()));
        }
        archive::unpack_python(&archive, &target)
    })
    .await
    .unwrap_or_else(|e| Err(format!("unpacking broke: {e}")));
    events.emit(Event::TaskDone { node: None, what, error: unpacked.clone().err() });
    unpacked.map_err(failed)
}

fn minor(request: &Request, archive: Option<&archive::Unpacked>, pip: &pip::Pip) -> Result<String, Failure> {
    let platform = request.platform;
    let minor = match (&request.minor, archive) {
        (Some(asked), Some(found)) if *asked != found.minor => {
            return Err(failed(format!("the archive holds Python {}, but {asked} was asked for", found.minor)));
        }
        (_, Some(found)) => found.minor.clone(),
        (Some(asked), None) => asked.clone(),
        (None, None) if Platform::host() == Some(platform) => pip.minor.clone(),
        (None, None) => DEFAULT_MINOR.to_owned(),
    };
    if sources::lock(platform, &minor).is_some() {
        return Ok(minor);
    }
    let known = sources::minors(platform).join(", ");
    Err(failed(format!("there is no lock for Python {minor} on {platform}; there is one for {known}"))
        .hint("name the Python minor of the nodes: --python-minor 3.12"))
}

struct Wheels {
    uv: PathBuf,
    packages: Vec<(locks::Pin, PathBuf)>,
}

async fn download(request: &Request, pip: &pip::Pip, minor: &str, events: &Events) -> Result<Wheels, Failure> {
    let platform = request.platform;
    let missing = || failed(format!("this macluster carries no lock for {platform}"));
    let tools = sources::tools(platform).ok_or_else(missing)?;
    let packages = sources::lock(platform, minor).ok_or_else(missing)?;
    let broken = |why: String| failed(format!("a lock of this macluster is broken: {why}"));
    let mut pins = locks::parse(packages).map_err(broken)?;
    let tool_pins = locks::parse(tools).map_err(broken)?;
    let folder = request.cache.join("wheels").join(format!("{platform}-cp{}", minor.replace('.', "")));
    let uv = pip::fetch(pip, &tool_pins, tools, platform, minor, &folder, events).await?;
    let uv = uv.into_iter().next().ok_or_else(missing)?;
    let files = pip::fetch(pip, &pins, packages, platform, minor, &folder, events).await?;
    for file in files.iter().chain([&uv]) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        platform.accepts_wheel(&name, minor).map_err(failed)?;
        // The wheel for older systems would install, and then not find Metal's newer kernels.
        let mlx = name.starts_with("mlx-") || name.starts_with("mlx_metal-");
        if platform == Platform::MacosArm64 && mlx && !name.contains("macosx_26_0_arm64") {
            return Err(failed(format!("{name} is not the wheel for macOS 26")));
        }
    }
    Ok(Wheels { uv, packages: pins.drain(..).zip(files).collect() })
}

struct Assembly {
    dir: PathBuf,
    agent: PathBuf,
    platform: Platform,
    minor: String,
    interpreter: Option<archive::Unpacked>,
    wheels: Wheels,
}

impl Assembly {
    /// Writes every file and the manifest.
    fn run(self, progress: &dyn Fn(u64, u64)) -> Result<Manifest, String> {
        let Wheels { uv, packages } = &self.wheels;
        let total = packages.len() as u64 + 5;
        self.write("bin/macluster", 0o755, &std::fs::read(&self.agent).map_err(|e| unreadable(&self.agent, &e))?)?;
        progress(1, total);
        self.write("bin/uv", 0o755, &wheel::take_program(uv, "uv")?)?;
        progress(2, total);
        let engine = wheel::pure(sources::PYPROJECT, &sources::package(), OWN_LICENCE)?;
        self.write(&format!("wheels/{}", engine.file), 0o644, &engine.bytes)?;
        let sum = |path: &str| sha256_file(&self.dir.join(path), &mut |_| {}).map_err(|e| format!("{path}: {e}"));
        let pinned = |requirement: &str, hash: &str| format!("{requirement} --hash=sha256:{hash}\n");
        let own = format!("{}=={}", engine.name, engine.version);
        let mut lines = vec![pinned(&own, &sum(&format!("wheels/{}", engine.file))?)];
        let mut requirements = vec![own];
        for (n, (pin, file)) in packages.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("wheels/{name}");
            self.write(&path, 0o644, &std::fs::read(file).map_err(|e| unreadable(file, &e))?)?;
            let hash = sum(&path)?;
            // Between the download and this copy the file may have been changed.
            if !pin.hashes.contains(&hash) {
                return Err(format!("{name} was changed in the cache while it was copied"));
            }
            lines.push(pinned(&pin.requirement(), &hash));
            requirements.push(pin.requirement());
            progress(n as u64 + 3, total);
        }
        lines.sort();
        requirements.sort();
        self.write("requirements.txt", 0o644, lines.concat().as_bytes())?;
        self.write(NOTICES_FILE, 0o644, self.notices()?.as_bytes())?;
        progress(total - 1, total);
        let manifest = self.manifest(requirements)?;
        let text = serde_json::to_string_pretty(&manifest).map_err(|e| e.to_string())?;
        self.write(MANIFEST_FILE, 0o644, format!("{text}\n").as_bytes())?;
        progress(total, total);
        Ok(manifest)
    }

    /// The licences of what was written so far.
    fn notices(&self) -> Result<String, String> {
        let version = inspect::program_version(&self.dir.join("bin/macluster"));
        let mut entries = vec![
            Entry::own(version.map_err(|e| format!("bin/macluster: {e}"))?.as_deref()),
            Entry::wheel(WheelInfo::read(&self.wheels.uv)?, "bin/uv".to_owned()),
        ];
        if self.interpreter.is_some() {
            entries.push(Entry::python(&self.dir.join("python"), &self.minor)?);
        }
        for path in super::manifest::files(&self.dir)?.into_iter().filter(|p| p.starts_with("wheels/")) {
            entries.push(Entry::wheel(WheelInfo::read(&self.dir.join(&path))?, path));
        }
        Ok(compose(&entries))
    }

    fn manifest(&self, requirements: Vec<String>) -> Result<Manifest, String> {
        let mut files = Vec::new();
        for path in super::manifest::files(&self.dir)? {
            let full = self.dir.join(&path);
            let meta = full.metadata().map_err(|e| format!("{path}: {e}"))?;
            let sha256 = sha256_file(&full, &mut |_| {}).map_err(|e| format!("{path}: {e}"))?;
            files.push(FileEntry { size: meta.len(), mode: meta.permissions().mode() & 0o7777, sha256, path });
        }
        let mut manifest = Manifest {
            schema_version: MANIFEST_VERSION,
            id: String::new(),
            platform: self.platform,
            python_minor: self.minor.clone(),
            python: self.interpreter.as_ref().map(|p| format!("python/{}", p.interpreter)),
            macluster_version: env!("CARGO_PKG_VERSION").to_owned(),
            requirements,
            files,
        };
        manifest.id = manifest.content_id();
        // The same checks that its readers make.
        Manifest::parse(&serde_json::to_string(&manifest).map_err(|e| e.to_string())?)
    }

    fn write(&self, path: &str, mode: u32, content: &[u8]) -> Result<(), String> {
        let full = self.dir.join(path);
        let trouble = |e: std::io::Error| format!("cannot write {}: {e}", full.display());
        if let Some(parent) = full.parent() {
            std::fs::create_dir_all(parent).map_err(trouble)?;
        }
        std::fs::write(&full, content).map_err(trouble)?;
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(mode)).map_err(trouble)
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
