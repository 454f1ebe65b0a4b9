//! A node's clock on the wall, moved while everything runs: the kernel has no such clock for each namespace, so every
//! program of the node gets a library that adds to what the kernel says.

use std::fs;
use std::process::Command;

use super::rack::NetRack;

/// Adds the number in a shared file to the wall clock; the file is mapped, so a jump is a write.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *offset;

__attribute__((constructor)) static void map(void) {
  int fd = open("/.macsim/clock", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void *at = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) offset = at;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int result = syscall(SYS_clock_gettime, id, t);
  if (!result && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *offset;
  return result;
}

int gettimeofday(struct timeval *t, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
"#;

/// Gives every node such a clock. What is started from now on sees it.
pub fn install(rack: &NetRack) {
    let source = rack.dir.join("clock.c");
    let library = rack.dir.join("clock.so");
    fs::write(&source, SOURCE).expect("written");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("cc runs").success());
    for number in rack.numbers() {
        let root = rack.root(number);
        fs::write(root.join(".macsim/clock"), 0i64.to_ne_bytes()).expect("written");
        fs::copy(&library, root.join(".macsim/clock.so")).expect("copied");
        // `/etc` is a link below the node's root, as on macOS.
        fs::write(root.join("private/etc/ld.so.preload"), "/.macsim/clock.so\n").expect("written");
    }
}

/// Moves a node's clock to so many seconds ahead of the true time.
pub fn jump(rack: &NetRack, number: usize, seconds: i64) {
    let file = rack.root(number).join(".macsim/clock");
    let mut file = fs::OpenOptions::new().write(true).open(file).expect("a clock");
    std::io::Write::write_all(&mut file, &seconds.to_ne_bytes()).expect("written");
    let shown: i64 = rack.ssh(number, "date +%s").expect(0).stdout.trim().parse().expect("seconds");
    let now = jiff::Timestamp::now().as_second();
    assert!((shown - now - seconds).abs() < 60, "the clock shows {shown}, it is {now}");
}
