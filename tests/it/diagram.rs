//! `cabling diagram`: golden pictures, and that no label covers another.

use std::path::Path;

use macluster::mesh::LinkGraph;
use macluster::mesh::wiring::{Board, mesh};
use macluster::model::facts::Attached;
use macluster::model::hardware::Mac;
use macluster::model::panel::{Face, Numbering, Panel, Port};
use macluster::view::Printer;
use macluster::view::diagram::layout::{Area, Layout, Style, text_width};
use macluster::view::diagram::{self, Cable, Diagram, End, Far, Look, dot, draw, from_plan, from_rack, html, text};
use macluster::view::wiring::Wiring;

use crate::support::rack::Rack;

const PLAIN: Printer = Printer { color: false, progress: false, width: 100 };

fn diagram(rack: &Rack) -> Diagram {
    from_rack(&rack.inventory, &rack.snapshot, &LinkGraph::build(&rack.snapshot), true)
}

/// Five kinds of Macs and every kind of cable: a self loop, one to a stranger, a dock, a slow one, two in one pair,
/// the excluded receptacle.
fn mixed() -> Rack {
    let mut rack = Rack::studios(6);
    let kinds = [
        ("Mac15,14", "Mac Studio", 6),
        ("Mac16,9", "Mac Studio", 4),
        ("Mac16,11", "Mac mini", 3),
        ("Mac17,6", "MacBook Pro", 3),
        ("Mac99,1", "Mac Pro", 6),
    ];
    for (i, (model, name, receptacles)) in (1..).zip(kinds) {
        let node = format!("studio-{i}");
        let other = Rack::of(model, name, 6, receptacles);
        rack.snapshot
            .nodes
            .insert(node.parse().expect("a name"), other.snapshot.nodes[&node.parse().expect("a name")].clone());
    }
    rack.cable("studio-1", 2, "studio-2", 1);
    rack.cable("studio-1", 3, "studio-3", 1);
    rack.cable("studio-1", 4, "studio-4", 2);
    rack.cable("studio-1", 6, "studio-5", 6);
    rack.cable("studio-2", 3, "studio-3", 2);
    rack.cable("studio-2", 4, "studio-4", 1);
    rack.cable("studio-3", 3, "studio-5", 1);
    rack.cable("studio-5", 2, "studio-5", 4);
    rack.cable("studio-5", 3, "studio-4", 3);
    rack.receptacle("studio-5", 3).speed = Some("40 Gb/s".to_owned());
    let stranger = Rack::of("Mac17,7", "MacBook Pro", 9, 3).peer("studio-9", 2);
    let port = rack.receptacle("studio-2", 2);
    (port.connected, port.attached) = (true, vec![Attached::Mac(stranger)]);
    rack.lose("studio-6");
    rack
}

/// To a full mesh a cable leaves the excluded receptacle, two of one pair go to pairs that lack theirs, one is new, and a
/// drive gives way.
fn changed() -> Rack {
    let mut rack = Rack::of("Mac16,9", "Mac Studio", 4, 4);
    rack.cable("studio-1", 2, "studio-2", 1);
    rack.cable("studio-1", 3, "studio-3", 3);
    rack.cable("studio-2", 2, "studio-3", 2);
    rack.cable("studio-2", 3, "studio-3", 4);
    rack.cable("studio-2", 4, "studio-3", 1);
    let port = rack.receptacle("studio-4", 3);
    port.connected = true;
    port.attached = vec![Attached::Device { name: "Disk".to_owned(), vendor: None, mode: None, behind: vec![] }];
    rack
}

/// Has a cable that is of no use, beside one that has to move.
fn surplus() -> Rack {
    let mut rack = Rack::meshed(3);
    rack.unplug("studio-3", 3);
    rack.cable("studio-2", 3, "studio-3", 1);
    rack.cable("studio-2", 5, "studio-2", 6);
    rack
}

fn planned(rack: &Rack) -> Diagram {
    let graph = LinkGraph::build(&rack.snapshot);
    let board = Board::of(&rack.inventory, &rack.snapshot, &graph).expect("everything is known");
    let macs: Vec<Mac> = board.names.iter().filter_map(|n| rack.snapshot.facts(n)).map(Mac::of).collect();
    let plan = mesh(&board).expect("possible");
    from_plan(&Wiring { inventory: &rack.inventory, macs: &macs, board: &board, at_hand: false }, &plan)
}

/// `MACLUSTER_UPDATE_GOLDEN=1 cargo test --test it diagram` writes the files anew; look at them before you commit.
fn golden(name: &str, drawn: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diagram").join(name);
    if std::env::var_os("MACLUSTER_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, drawn).expect("the golden file is written");
    }
    let known = std::fs::read_to_string(&path).expect("the golden file is there");
    assert!(known == drawn, "{name} is drawn differently; if that is wanted: MACLUSTER_UPDATE_GOLDEN=1");
}

#[test]
fn racks_are_drawn_as_they_were_looked_at() {
    for count in [2, 3, 4, 6] {
        golden(&format!("{count}.svg"), &draw(&diagram(&Rack::meshed(count))));
    }
    golden("mixed.svg", &draw(&diagram(&mixed())));
    golden("mixed.html", &html(&diagram(&mixed())));
    golden("mixed.dot", &dot(&diagram(&mixed())));
    golden("mixed.txt", &text(&diagram(&mixed()), PLAIN));
    golden("planned.svg", &draw(&planned(&changed())));
    golden("planned-surplus.svg", &draw(&planned(&surplus())));
    golden("planned.html", &html(&planned(&changed())));
    golden("planned.dot", &dot(&planned(&changed())));
    golden("planned.txt", &text(&planned(&changed()), PLAIN));
}

/// Full mesh of so many Macs with seven receptacles each and names of that length, the last cables new.
fn invented(count: usize, name: usize) -> Diagram {
    let ports: Vec<Port> = (1..=7).map(Port::Receptacle).collect();
    let mac = |i: usize| diagram::Mac {
        name: format!("m{i}{}", "x".repeat(name)),
        about: format!("slot {i} · {}", "a model with a long name ".repeat(3)),
        panel: Panel { faces: vec![Face { name: "back", ports: ports.clone() }], numbering: Numbering::Measured },
        excluded: None,
    };
    let mut next = vec![0_u32; count];
    let mut cables = Vec::new();
    for low in 0..count {
        for high in low + 1..count {
            let mut end = |mac: usize| {
                next[mac] += 1;
                End { mac, receptacle: next[mac] }
            };
            cables.push(Cable {
                label: (cables.len() + 1).to_string(),
                near: end(low),
                far: Far::End(end(high)),
                network: Some("10.254.255.252/30".to_owned()),
                gbps: Some(80),
                look: if high == 7 { Look::New } else { Look::Good },
                state: "moves here from a receptacle with a long description, ".repeat(2),
            });
        }
    }
    Diagram {
        title: "Rack".to_owned(),
        subtitle: "invented".to_owned(),
        macs: (0..count).map(mac).collect(),
        cables,
        remarks: vec!["A remark ".repeat(40)],
    }
}

/// The pieces of a cable's line as rectangles of the line's width.
fn pieces(points: &[(i32, i32)]) -> impl Iterator<Item = Area> {
    points.windows(2).map(|p| {
        let ((x1, y1), (x2, y2)) = (p[0], p[1]);
        let (across, down) = (i32::from(x1 == x2), i32::from(y1 == y2));
        let (w, h) = ((x2 - x1).abs() + 2 * across, (y2 - y1).abs() + 2 * down);
        Area { x: x1.min(x2) - across, y: y1.min(y2) - down, w, h }
    })
}

fn is_clear(diagram: &Diagram, what: &str) {
    for table in [true, false] {
        let layout = Layout::of(diagram, table);
        let page = Area { x: 0, y: 0, w: layout.width, h: layout.height };
        for (i, label) in layout.labels.iter().enumerate() {
            let area = label.area;
            let inside = area.x >= 0 && area.y >= 0 && area.right() <= page.w && area.bottom() <= page.h;
            assert!(inside, "{what}: `{}` leaves the page: {area:?} of {page:?}", label.text);
            for other in &layout.labels[i + 1..] {
                assert!(!area.meets(&other.area), "{what}: `{}` covers `{}`", label.text, other.text);
            }
            for route in layout.routes.iter().filter(|r| label.style != Style::Cable(r.cable)) {
                let hit = pieces(&route.points).any(|piece| piece.meets(&area));
                assert!(!hit, "{what}: cable {} runs over `{}` at {area:?}", route.cable + 1, label.text);
            }
        }
        for route in &layout.routes {
            for piece in pieces(&route.points) {
                assert!(
                    piece.right() <= page.w && piece.bottom() <= page.h,
                    "{what}: cable {} leaves",
                    route.cable + 1
                );
            }
        }
        // Every cable is drawn and named at both ends; one from Mac to Mac in the middle too, and in the table.
        for (index, cable) in diagram.cables.iter().enumerate() {
            let between = matches!(cable.far, Far::End(far) if far.mac != cable.near.mac);
            let expected = match cable.far {
                Far::End(_) => 2,
                Far::Outside(_) => 1,
            } + usize::from(between)
                + usize::from(table);
            let named = layout.labels.iter().filter(|l| l.style == Style::Cable(index)).count();
            assert_eq!(named, expected, "{what}: labels of cable {}", cable.label);
            assert!(layout.routes.iter().any(|r| r.cable == index), "{what}: cable {} is not drawn", cable.label);
        }
    }
}

#[test]
fn no_label_covers_another_and_none_leaves_the_page() {
    for count in [2, 3, 4, 6] {
        is_clear(&diagram(&Rack::meshed(count)), &format!("{count} studios"));
    }
    for count in [2, 3, 4, 6, 8] {
        for name in [0, 60] {
            is_clear(&invented(count, name), &format!("{count} invented Macs, names of {name}"));
        }
    }
    is_clear(&diagram(&mixed()), "mixed");
    is_clear(&planned(&changed()), "planned");
    is_clear(&planned(&surplus()), "planned, one to take out");
    let mut crowded = diagram(&mixed());
    for label in ["11", "12", "100"] {
        // Several cables that claim one receptacle, as a dock or a false report shows them.
        let near = End { mac: 0, receptacle: 2 };
        let cable = Cable { label: label.to_owned(), near, ..crowded.cables[1].clone() };
        crowded.cables.push(cable);
    }
    is_clear(&crowded, "crowded");
    is_clear(&from_rack(&mixed().inventory, &mixed().snapshot, &LinkGraph::default(), false), "without cables");
}

#[test]
fn names_from_outside_cannot_break_any_format() {
    let mut diagram = diagram(&Rack::meshed(2));
    let evil = "</text><script>alert(1)</script>\"]; \\ '&\u{1b}[31m";
    let evil = || evil.to_owned();
    (diagram.title, diagram.subtitle) = (evil(), evil());
    (diagram.macs[0].name, diagram.macs[0].about) = (evil(), evil());
    let cable = &mut diagram.cables[0];
    (cable.label, cable.state, cable.network, cable.far) = (evil(), evil(), Some(evil()), Far::Outside(evil()));
    diagram.remarks = vec![evil()];
    for (drawn, svg) in [(draw(&diagram), true), (html(&diagram), true), (dot(&diagram), false)] {
        assert!(!drawn.contains('\u{1b}'), "{drawn}");
        if svg {
            assert!(
                !drawn.contains("<script") && !drawn.contains("</text><") && drawn.contains("&lt;script&gt;"),
                "{drawn}"
            );
            assert!(!drawn.contains("href") && !drawn.contains("@import"), "it loads nothing");
        } else {
            // Quotes end no string: between two bare ones stands no bracket of an attribute list.
            let bare = drawn.replace("\\\\", "").replace("\\\"", "");
            assert_eq!(bare.matches('"').count() % 2, 0);
            assert!(bare.split('"').skip(1).step_by(2).any(|inside| inside.contains("]; ")), "{drawn}");
        }
    }
    assert!(!text(&diagram, PLAIN).contains('\u{1b}'));
}

/// Emoji are wider than letters, and a name of them still covers nothing.
#[test]
fn wide_names_have_the_room_they_need() {
    let wide = "Frank’s \"<Desk> & Co\" 🐙🐙🐙🐙🐙🐙🐙🐙🐙🐙 Thunderbolt 漢字 in my cellar";
    assert_eq!(wide.chars().count(), 60);
    assert!(text_width("🐙🐙", 100) >= 250, "as wide as Noto Color Emoji draws them");
    assert_eq!(text_width("ab", 100), 120);
    let mut diagram = diagram(&mixed());
    (diagram.macs[0].name, diagram.macs[0].about, diagram.title) = (wide.to_owned(), wide.to_owned(), wide.to_owned());
    diagram.cables[0].state = wide.to_owned();
    diagram.cables[1].network = Some(wide.to_owned());
    diagram.cables[2].far = Far::Outside(wide.to_owned());
    is_clear(&diagram, "wide names");
    let width = |table: bool| Layout::of(&diagram, table).width;
    assert!(width(false) >= text_width(wide, 20) && width(true) >= text_width(wide, 20));
    // Every format tells them in full.
    let escaped = "Frank’s &quot;&lt;Desk&gt; &amp; Co&quot; 🐙🐙🐙🐙🐙🐙🐙🐙🐙🐙 Thunderbolt 漢字 in my cellar";
    assert!(draw(&diagram).contains(escaped) && html(&diagram).contains(escaped));
    assert!(dot(&diagram).contains(escaped) && dot(&diagram).contains(&wide.replace('"', "\\\"")));
    assert!(text(&diagram, PLAIN).contains(wide));
}
