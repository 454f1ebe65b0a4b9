//! Finds a ring through all nodes.

/// Gives up after this many steps: the search is exponential in the worst case, racks are small.
const STEPS: u32 = 1_000_000;

/// A cycle through all of `0..n` that begins at 0 and uses only joined pairs; of all such cycles the first in
/// alphabetical order, so that ranks stay as near to the given order as the cables allow.
///
/// One node is its own ring; two nodes form a ring over one cable (MLX uses it in both directions).
pub fn cycle(n: usize, joined: &dyn Fn(usize, usize) -> bool) -> Option<Vec<usize>> {
    match n {
        0 => return None,
        1 => return Some(vec![0]),
        2 => return joined(0, 1).then(|| vec![0, 1]),
        _ => {}
    }
    let mut path = vec![0];
    let mut steps = STEPS;
    extend(n, joined, &mut path, &mut steps).then_some(path)
}

fn extend(n: usize, joined: &dyn Fn(usize, usize) -> bool, path: &mut Vec<usize>, steps: &mut u32) -> bool {
    let Some(&last) = path.last() else { return false };
    if path.len() == n {
        return joined(last, 0);
    }
    for next in 1..n {
        if *steps == 0 {
            return false;
        }
        if !path.contains(&next) && joined(last, next) {
            *steps -= 1;
            path.push(next);
            if extend(n, joined, path, steps) {
                return true;
            }
            path.pop();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: usize, pairs: &[(usize, usize)]) -> Option<Vec<usize>> {
        cycle(n, &|a, b| pairs.contains(&(a, b)) || pairs.contains(&(b, a)))
    }

    #[test]
    fn finds_the_ring_that_stays_nearest_to_the_order() {
        assert_eq!(of(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)]), Some(vec![0, 1, 2, 3]));
        assert_eq!(of(4, &[(0, 2), (2, 1), (1, 3), (3, 0)]), Some(vec![0, 2, 1, 3]));
        assert_eq!(of(3, &[(0, 1), (1, 2)]), None);
        assert_eq!(of(2, &[(0, 1)]), Some(vec![0, 1]));
        assert_eq!(of(2, &[]), None);
    }

    #[test]
    fn a_hopeless_rack_is_given_up_in_time() {
        // Two complete halves joined by one cable: no ring, and very many ways to look for one.
        let joined = |a: usize, b: usize| (a < 8) == (b < 8) || (a.min(b), a.max(b)) == (0, 8);
        assert_eq!(cycle(16, &joined), None);
    }
}
