//! What `macluster smoke` prints: for people, for programs, for CI servers.

use std::fmt::Write;

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};
use serde_json::{Value, json};

use crate::model::Inventory;
use crate::model::command::printable;
use crate::phase::proof::Answer;
use crate::phase::smoke::{Smoke, Step, Verdict};

/// A line for each step, and what to do about those that failed.
pub fn human(smoke: &Smoke, inventory: &Inventory) -> String {
    let mut out = String::new();
    for step in &smoke.steps {
        let (word, lines) = match &step.verdict {
            Verdict::Passed(text) => ("pass", vec![text.clone()]),
            Verdict::Failed(causes) => ("FAIL", causes.clone()),
            Verdict::Skipped(why) => ("skip", vec![format!("not tried: {why}")]),
        };
        for (number, line) in lines.iter().enumerate() {
            let (word, id) = if number == 0 { (word, step.id) } else { ("", "") };
            let _ = writeln!(out, "{word:4}  {id:15}  {}", printable(line));
        }
        for hint in &step.hints {
            let _ = writeln!(out, "{:4}  {:15}  → {hint}", "", "");
        }
    }
    let failed = smoke.steps.iter().filter(|s| matches!(s.verdict, Verdict::Failed(_))).count();
    let _ = match failed {
        0 if smoke.passed() => writeln!(out, "{} serves", inventory.rack),
        n => writeln!(out, "{}: {n} of {} steps failed", inventory.rack, smoke.steps.len()),
    };
    out
}

fn answer(answer: Option<&Answer>) -> Value {
    answer.map_or(Value::Null, |a| {
        json!({
            "tokens": a.tokens,
            "seconds": a.whole.as_secs_f64(),
            "tokens_per_second": a.rate(),
            "first_token_after_s": a.first.map(|f| f.as_secs_f64()),
        })
    })
}

/// All of it, for programs.
pub fn json(smoke: &Smoke, inventory: &Inventory) -> Value {
    let step = |s: &Step| {
        let (verdict, messages) = match &s.verdict {
            Verdict::Passed(text) => ("pass", vec![text.clone()]),
            Verdict::Failed(causes) => ("fail", causes.clone()),
            Verdict::Skipped(why) => ("skip", vec![why.clone()]),
        };
        json!({"step": s.id, "verdict": verdict, "messages": messages, "hints": s.hints, "seconds": s.took.as_secs_f64()})
    };
    let runs = smoke.runs.as_ref().map(
        |r| json!({"release": r.release, "epoch": r.epoch, "ranks": r.ranks, "backend": r.backend, "model": r.model}),
    );
    json!({
        "schema_version": 1,
        "rack": inventory.rack,
        "verdict": if smoke.passed() { "pass" } else { "fail" },
        "service": runs,
        "answer": answer(smoke.whole.as_ref()),
        "streamed_answer": answer(smoke.streamed.as_ref()),
        "steps": smoke.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

/// `JUnit` XML: one suite, a test case for each step, with the time it took; figures are the output of their case.
pub fn junit(smoke: &Smoke, inventory: &Inventory) -> String {
    let mut junit = Junit::new(format!("macluster smoke {}", inventory.rack));
    let mut suite = TestSuite::new("smoke");
    for step in &smoke.steps {
        let status = match &step.verdict {
            Verdict::Passed(_) => TestCaseStatus::success(),
            Verdict::Skipped(why) => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(printable(why));
                status
            }
            Verdict::Failed(causes) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                let lines: Vec<String> = causes.iter().chain(&step.hints).map(|l| printable(l)).collect();
                status.set_type(step.id).set_message(lines.first().cloned().unwrap_or_default());
                status.set_description(lines.join("\n"));
                status
            }
        };
        let mut case = TestCase::new(step.id, status);
        case.set_classname(format!("{}.smoke", inventory.rack)).set_time(step.took);
        if let Verdict::Passed(text) = &step.verdict {
            case.set_system_out(printable(text));
        }
        suite.add_test_case(case);
    }
    junit.add_test_suite(suite);
    junit.to_string().unwrap_or_default()
}
