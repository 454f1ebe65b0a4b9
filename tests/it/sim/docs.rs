//! `docs/simulator.md` names every key of both files, every one of which the simulator writes.

use std::path::Path;

use super::rack;

#[tokio::test]
async fn the_page_names_every_key_of_the_schema() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulator.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rack = rack().nodes(1).start().await.expect("a rack");
    for file in ["rack.json", "state/studio-1.json"] {
        let text = std::fs::read(rack.dir.join(file)).expect("a file");
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        for key in value.as_object().expect("an object").keys() {
            assert!(page.contains(&format!("`{key}`")), "{file}: `{key}` is not on the page");
        }
    }
    rack.stop().await.expect("stops");
}
