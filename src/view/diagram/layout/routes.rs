//! Tracks below the Macs and lanes beside them.

use std::collections::BTreeMap;

use super::macs::{Placed, TRACK};
use super::{Layout, Route, ends, int, pill_width};
use crate::view::diagram::Diagram;

/// Space between the Macs and the first lane.
const BESIDE: i32 = 22;
/// Space between two cables' labels on neighbouring lanes.
const APART: i32 = 6;
/// Space between two cables on one lane.
const FOLLOW: i32 = 12;

/// The way of a cable from one Mac to another.
struct Run {
    cable: usize,
    /// Macs, the upper one first.
    macs: (usize, usize),
    /// Heights of the tracks at both.
    heights: (i32, i32),
}

/// Draws all cables; gives the right edge.
pub(super) fn place(layout: &mut Layout, diagram: &Diagram, placed: &Placed) -> i32 {
    let tracks = tracks(diagram, placed);
    let edge = placed.right + BESIDE;
    let mut runs = Vec::new();
    for cable in 0..diagram.cables.len() {
        let (Some(near), far) = ends(diagram, cable) else { continue };
        let Some(plug) = placed.plugs.get(&(near, cable)) else { continue };
        let Some(height) = tracks.get(&(near.mac, cable)).copied() else { continue };
        let Some(far) = far else {
            let points = vec![(plug.x, plug.y), (plug.x, height), (edge - APART, height)];
            layout.routes.push(Route { cable, points, leaves: true });
            continue;
        };
        let Some(other) = placed.plugs.get(&(far, cable)) else { continue };
        if far.mac == near.mac {
            let points = vec![(plug.x, plug.y), (plug.x, height), (other.x, height), (other.x, other.y)];
            layout.routes.push(Route { cable, points, leaves: false });
            continue;
        }
        let Some(there) = tracks.get(&(far.mac, cable)).copied() else { continue };
        let (macs, heights) = if near.mac < far.mac {
            ((near.mac, far.mac), (height, there))
        } else {
            ((far.mac, near.mac), (there, height))
        };
        runs.push(Run { cable, macs, heights });
    }
    let pitch = diagram.cables.iter().map(|c| pill_width(&c.label)).max().unwrap_or(0) + APART;
    let lanes = lanes(&runs);
    for (run, lane) in runs.iter().zip(&lanes) {
        let x = edge + int(*lane) * pitch + pitch / 2;
        let (Some(near), Some(far)) = ends(diagram, run.cable) else { continue };
        let [near, far] = [near, far].map(|end| {
            let plug = placed.plugs.get(&(end, run.cable)).copied();
            let height = if end.mac == run.macs.0 { run.heights.0 } else { run.heights.1 };
            (plug, height)
        });
        let ((Some(from), down), (Some(to), up)) = (near, far) else { continue };
        let points = vec![(from.x, from.y), (from.x, down), (x, down), (x, up), (to.x, up), (to.x, to.y)];
        layout.routes.push(Route { cable: run.cable, points, leaves: false });
        // Beside a Mac there are no tracks: nothing crosses the lanes there.
        let beside = (run.macs.0 + 1 + run.macs.1) / 2;
        if let Some(middle) = placed.middles.get(beside) {
            layout.pill(diagram, run.cable, (x, *middle));
        }
    }
    layout.routes.sort_by_key(|r| r.cable);
    edge + lanes.iter().max().map_or(0, |last| (int(*last) + 1) * pitch)
}

/// Heights of the tracks, by Mac and cable. The rightmost plug has the highest track, so that a plug's line goes down
/// only past tracks that turned right before it.
fn tracks(diagram: &Diagram, placed: &Placed) -> BTreeMap<(usize, usize), i32> {
    let mut leftmost: BTreeMap<(usize, usize), i32> = BTreeMap::new();
    for ((end, cable), plug) in &placed.plugs {
        let x = leftmost.entry((end.mac, *cable)).or_insert(plug.x);
        *x = (*x).min(plug.x);
    }
    let mut heights = BTreeMap::new();
    for (mac, first) in placed.tracks.iter().enumerate() {
        let mut here: Vec<(i32, usize)> =
            (0..diagram.cables.len()).filter_map(|c| Some((*leftmost.get(&(mac, c))?, c))).collect();
        here.sort_by_key(|(x, cable)| (-x, *cable));
        for (i, (_, cable)) in here.into_iter().enumerate() {
            heights.insert((mac, cable), first + int(i) * TRACK);
        }
    }
    heights
}

/// The lane of each run: short ones first and near the Macs, each in the first lane where it meets no other.
fn lanes(runs: &[Run]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| runs.get(*i).map(|r| (r.heights.1 - r.heights.0, r.heights.0)));
    let mut taken: Vec<Vec<(i32, i32)>> = Vec::new();
    let mut lanes = vec![0; runs.len()];
    for index in order {
        let Some(run) = runs.get(index) else { continue };
        let (top, bottom) = (run.heights.0 - FOLLOW, run.heights.1 + FOLLOW);
        let free = |lane: &Vec<(i32, i32)>| lane.iter().all(|(t, b)| bottom < *t || *b < top);
        let lane = taken.iter().position(free).unwrap_or(taken.len());
        if lane == taken.len() {
            taken.push(Vec::new());
        }
        if let Some(lane) = taken.get_mut(lane) {
            lane.push(run.heights);
        }
        if let Some(of) = lanes.get_mut(index) {
            *of = lane;
        }
    }
    lanes
}
