//! What is asked of the service while it serves: one answer, a needle, several at once, one after a pause.

use std::time::{Duration, Instant};

use super::report::{AtOnce, Needle, NeedleSize, Streamed};
use crate::model::Inventory;
use crate::model::command::printable;
use crate::phase::proof::{self, Answer};
use crate::phase::runtime::RuntimeNode;

/// For one answer, also behind seven others.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// For a long prompt on a large model.
const NEEDLE_LIMIT: Duration = Duration::from_secs(900);
/// Enough for a model that thinks before it answers a simple question.
const NEEDLE_ANSWER: u32 = 256;
/// No word of the filler, and one that models know.
const CODE_WORD: &str = "kingfisher";
/// Words of the prompt by which tokens per word are measured.
const SAMPLE: u32 = 300;
/// Attempts to reach the wanted number of tokens.
const TRIES: u32 = 3;

/// Where to ask.
#[derive(Clone, Copy)]
pub(super) struct Api<'a> {
    /// The rack.
    pub(super) inventory: &'a Inventory,
    /// Rank 0's node.
    pub(super) node: &'a RuntimeNode,
}

/// Why there is no needle.
pub(super) enum NoNeedle {
    /// The model's context is too small: it says so itself.
    TooLong(String),
    /// No answer.
    Failed(String),
}

impl Api<'_> {
    async fn ask(&self, text: &str, tokens: u32, stream: bool, limit: Duration) -> Result<(Answer, String), String> {
        let body = proof::chat(text, tokens, stream);
        proof::ask(self.node, self.inventory.runtime.api, body, limit).await
    }

    /// The standard question, streamed.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn streamed(&self) -> Result<Streamed, String> {
        let body = proof::question(true);
        let (answer, _) = proof::ask(self.node, self.inventory.runtime.api, body, ANSWER_LIMIT).await?;
        let first = answer.first.ok_or("the stream carried no text")?;
        Ok(Streamed { tokens: answer.tokens, tokens_per_second: answer.rate(), first_token_s: first.as_secs_f64() })
    }

    /// So many at once, each with its own question.
    ///
    /// # Errors
    /// Every request that ended without tokens.
    pub(super) async fn at_once(&self, count: usize) -> Result<AtOnce, Vec<String>> {
        let began = Instant::now();
        let questions = (1..=count).map(|n| format!("Count from {n} to {} in words.", n + 10));
        let asked = questions.map(|q| async move { self.ask(&q, proof::TOKENS, true, ANSWER_LIMIT).await });
        let answers = futures::future::join_all(asked).await;
        let seconds = began.elapsed().as_secs_f64();
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for (number, answer) in (1..).zip(answers) {
            match answer {
                Ok((answer, _)) => good.push(answer),
                Err(why) => bad.push(format!("request {number} of {count}: {why}")),
            }
        }
        if !bad.is_empty() {
            return Err(bad);
        }
        #[allow(clippy::cast_precision_loss, reason = "a few hundred tokens")]
        let tokens = good.iter().map(|a| a.tokens).sum::<u64>() as f64;
        Ok(AtOnce {
            requests: count,
            each_tokens_per_second: good.iter().map(Answer::rate).collect(),
            tokens_per_second: tokens / seconds.max(1e-6),
            seconds,
        })
    }

    /// Hides a code word in a prompt of at least so many tokens and asks for it.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn needle(&self, wanted: u32) -> Result<Needle, NoNeedle> {
        let told = |why: String| {
            let too_long = why.contains("context_length_exceeded");
            if too_long { NoNeedle::TooLong(why) } else { NoNeedle::Failed(why) }
        };
        let sample = SAMPLE.min(wanted);
        let (tried, _) = self.ask(&filler(sample), 1, false, NEEDLE_LIMIT).await.map_err(told)?;
        let mut words = f64::from(sample) * ratio(wanted, tried.prompt_tokens);
        let mut reached = 0;
        for _ in 0..TRIES {
            // A little more than wanted, as words differ.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of words, positive")]
            let count = (words * 1.04) as u32 + 1;
            let (answer, said) = self.ask(&prompt(count), NEEDLE_ANSWER, false, NEEDLE_LIMIT).await.map_err(told)?;
            reached = answer.prompt_tokens;
            if reached >= u64::from(wanted) {
                return Ok(Needle {
                    size: NeedleSize { wanted, prompt_tokens: reached },
                    found: said.to_lowercase().contains(CODE_WORD),
                    seconds: answer.whole.as_secs_f64(),
                    answer: printable(said.trim()).chars().take(200).collect(),
                });
            }
            words *= ratio(wanted, reached);
        }
        Err(NoNeedle::Failed(format!("no prompt of {wanted} tokens could be made: the API counted {reached}")))
    }
}

/// How many times more tokens are wanted than were counted.
fn ratio(wanted: u32, counted: u64) -> f64 {
    f64::from(wanted) / f64::from(u32::try_from(counted.max(1)).unwrap_or(u32::MAX))
}

/// The filler with the needle a third into it, and the question.
fn prompt(words: u32) -> String {
    let text = filler(words);
    let third = text.len() / 3;
    let at = text.get(third..).and_then(|rest| rest.find(". ")).map_or(text.len(), |i| third + i + 2);
    let (before, after) = text.split_at(at);
    format!(
        "{before}The secret code word is {CODE_WORD}. {after}\n\nWhat is the secret code word in the text above? \
         Answer with the code word."
    )
}

/// So many words, or a few more, of sentences that say nothing; always the same ones.
fn filler(words: u32) -> String {
    const WHO: [&str; 7] =
        ["The gardener", "A teacher", "The old baker", "My neighbour", "A sailor", "The painter", "A doctor"];
    const DOES: [&str; 7] = ["carries", "repairs", "remembers", "watches", "sells", "describes", "finds"];
    const WHAT: [&str; 7] = [
        "a wooden chair",
        "the morning paper",
        "two green apples",
        "an empty bottle",
        "the long road",
        "a warm coat",
        "some fresh bread",
    ];
    const WHERE: [&str; 7] = [
        "near the river",
        "behind the house",
        "in the market",
        "before noon",
        "on the hill",
        "after the rain",
        "at the station",
    ];
    let mut text = String::new();
    let (mut count, mut state) = (0, 7_u32);
    let mut pick = |from: &[&'static str; 7]| {
        // A small linear congruential generator: enough that no sentence follows another one always.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        from.get((state >> 16) as usize % from.len()).copied().unwrap_or_default()
    };
    while count < words {
        let sentence = format!("{} {} {} {}. ", pick(&WHO), pick(&DOES), pick(&WHAT), pick(&WHERE));
        count += u32::try_from(sentence.split_whitespace().count()).unwrap_or(1);
        text.push_str(&sentence);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needle_stands_once_and_the_filler_is_the_same_every_time() {
        let text = prompt(3000);
        assert_eq!(text, prompt(3000));
        assert_eq!(text.matches(CODE_WORD).count(), 1);
        assert!(!filler(5000).contains(CODE_WORD));
        let (before, _) = text.split_once(CODE_WORD).expect("there");
        assert!(before.len() > text.len() / 4 && before.len() < text.len() / 2, "in the middle of it");
        assert!(before.ends_with(". The secret code word is "), "between two sentences");
        assert!((3000..3020).contains(&filler(3000).split_whitespace().count()));
        // Sentences differ, or a model would find a period and nothing else.
        let all = filler(2000);
        let different: std::collections::BTreeSet<&str> = all.split(". ").collect();
        assert!(different.len() > 150, "{}", different.len());
        assert!(prompt(1).contains(CODE_WORD));
    }
}
