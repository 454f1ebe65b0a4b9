//! Which remedies were told already: what two findings share is told once.

use crate::model::{Finding, Remedy};

/// The remedies told so far, each with the finding it was told for.
#[derive(Default)]
pub(super) struct Told<'a>(Vec<(&'a Remedy, &'a Finding)>);

impl<'a> Told<'a> {
    /// Where the remedy of this finding was told already, in words: `as for studio-2 above (cabling.speed)`. None when
    /// it is told now, or there is none.
    pub(super) fn before(&mut self, finding: &'a Finding) -> Option<String> {
        let remedy = finding.remedy.as_ref()?;
        let Some((_, first)) = self.0.iter().find(|(told, _)| *told == remedy) else {
            self.0.push((remedy, finding));
            return None;
        };
        let about = match (&first.node, &first.link) {
            (Some(node), _) => node.to_string(),
            (None, Some(l)) => format!("{}:{} – {}:{}", l.a.node, l.a.receptacle, l.b.node, l.b.receptacle),
            (None, None) => "the rack".to_owned(),
        };
        Some(format!("as for {about} above ({})", first.check))
    }
}
