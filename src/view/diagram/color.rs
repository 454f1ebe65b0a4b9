//! A colour and a line pattern for each cable, so that it can be told from its neighbours in print too.

/// Dark enough on white paper, far apart.
const FIRST: [&str; 12] = [
    "#c0392b", "#1f5fbf", "#1e8449", "#d35400", "#7d3c98", "#008b8b", "#a67c00", "#c2185b", "#5d4037", "#37474f",
    "#558b2f", "#0277bd",
];

/// Dash patterns in SVG's notation; empty is a solid line.
const PATTERNS: [&str; 5] = ["", "12 4", "3 3", "14 4 3 4", "7 4"];

/// The colour of the cable with this index, `#rrggbb`; no two are the same.
pub(super) fn color(index: usize) -> String {
    if let Some(color) = FIRST.get(index) {
        return (*color).to_owned();
    }
    // Golden-angle steps around the colour circle never meet again; three depths keep neighbours apart.
    let hue = (index * 1375) % 3600;
    let high = [0x9c_usize, 0x74, 0xb0][index % 3];
    let sector = hue / 600;
    let within = hue % 600;
    let rise = high * within / 600;
    let fall = high - rise;
    let [red, green, blue] = match sector {
        0 => [high, rise, 0],
        1 => [fall, high, 0],
        2 => [0, high, rise],
        3 => [0, fall, high],
        4 => [rise, 0, high],
        _ => [high, 0, fall],
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Its dash pattern; empty for a solid line.
pub(super) fn pattern(index: usize) -> &'static str {
    PATTERNS[index % PATTERNS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cables_have_the_same_colour() {
        let all: std::collections::BTreeSet<String> = (0..64).map(color).collect();
        assert_eq!(all.len(), 64);
        assert!(all.iter().all(|c| c.len() == 7), "{all:?}");
    }

    #[test]
    fn neighbours_differ_in_print_too() {
        assert!((0..20).all(|i| pattern(i) != pattern(i + 1)));
    }
}
