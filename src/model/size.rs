//! Sizes for people.

/// `512 bytes`, `57 MiB`, `404 GiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..=1_048_575 => format!("{bytes} bytes"),
        1_048_576..=10_737_418_239 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}
