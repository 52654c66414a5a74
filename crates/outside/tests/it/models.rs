//! Models of both kinds against their stand-ins.

use serde_json::{Value, json};
use windlass_outside::models::reading::{Summary, sentiment, summary};
use windlass_outside::models::{Model, ModelFault, OpenAiModel, Question, Reply};
use windlass_outside::news::Sentiment;
use windlass_outside::openai::{Message, OpenAi, Schema};
use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_outside::workers_ai::WorkersAi;
use windlass_standins::{
    Answer, Fault, OpenAi as OpenAiStandIn, Reply as Says, Server, WorkersAi as StandIn,
};

use crate::common::{hasty, http, limits, url};

const MODEL: &str = "@cf/meta/llama-3.1-8b-instruct";

fn workers_ai(server: &StandIn, model: &str, limits: Limits) -> WorkersAi {
    let token = Secret::new(server.token());
    WorkersAi::new(http(&[server.url()]), url(&server.url()), server.account(), &token, model, limits)
        .unwrap()
}

fn openai(server: &OpenAiStandIn, limits: Limits) -> OpenAiModel {
    let client = OpenAi::new(http(&[server.url()]), url(&server.url()), Secret::new(server.key()), limits);
    OpenAiModel::new(client.unwrap(), "gpt-4o-mini")
}

fn question() -> Question {
    let sentiments = json!({"type": "string", "enum": ["positive", "negative", "neutral"]});
    let schema = json!({
        "type": "object", "properties": {"sentiment": sentiments},
        "required": ["sentiment"], "additionalProperties": false,
    });
    let schema = Schema { name: "sentiment".to_owned(), schema };
    let messages = vec![Message::system("Say how it is."), Message::user("Bitcoin rose.")];
    Question { messages, tokens_max: 10, schema }
}

#[tokio::test]
async fn one_question_for_both() {
    let (cloud, open) = (StandIn::start().await, OpenAiStandIn::start().await);
    let models: [Box<dyn Model>; 2] =
        [Box::new(workers_ai(&cloud, MODEL, limits())), Box::new(openai(&open, limits()))];
    for model in &models {
        let reply = model.ask(&question()).await.unwrap();
        assert_eq!(reply, Reply::Json(json!({"sentiment": "positive"})));
        assert_eq!(sentiment(&reply), Some(Sentiment::Positive));
    }
    let asked: Value = serde_json::from_slice(&cloud.asked()[0].body).unwrap();
    assert_eq!(cloud.asked()[0].path, format!("/client/v4/accounts/{}/ai/run/{MODEL}", cloud.account()));
    assert_eq!(asked["messages"][1], json!({"role": "user", "content": "Bitcoin rose."}));
    assert_eq!(
        (&asked["max_tokens"], &asked["response_format"]["type"]),
        (&json!(10), &json!("json_schema"))
    );
    assert_eq!(asked["response_format"]["json_schema"], question().schema.schema);
}

#[tokio::test]
async fn every_shape_of_an_answer() {
    let server = StandIn::start().await;
    let model = workers_ai(&server, MODEL, limits());
    let object = json!({"sentiment": "negative"});
    for result in [
        json!({"response": object}),
        json!({"response": object.to_string()}),
        json!({"response": format!("```json\n{object}\n```")}),
        json!({"response": "Negative."}),
        json!("negative, I fear"),
        json!({"choices": [{"message": {"content": object.to_string()}, "finish_reason": "stop"}]}),
    ] {
        server.result(result.clone());
        let reply = model.ask(&question()).await.unwrap();
        assert_eq!(sentiment(&reply), Some(Sentiment::Negative), "{result}");
    }
    for result in [json!({}), json!({"response": null}), json!(7), json!({"response": [1]}), json!(null)] {
        server.result(result.clone());
        let error = model.ask(&question()).await.unwrap_err();
        assert_eq!((error.code(), error.fault()), ("unreadable", ModelFault::Answer), "{result}");
    }
}

#[tokio::test]
async fn plain_words_of_a_server_that_speaks_openai() {
    let server = OpenAiStandIn::start().await;
    server.reply(Says::Text("It is clearly positive.".to_owned()));
    let reply = openai(&server, limits()).ask(&question()).await.unwrap();
    assert_eq!(sentiment(&reply), Some(Sentiment::Positive));
    server.reply(Says::Text("SUMMARY: Bitcoin rose by four percent.".to_owned()));
    let reply = openai(&server, limits()).ask(&question()).await.unwrap();
    assert_eq!(summary(&reply), Ok(Summary::Text("Bitcoin rose by four percent.".to_owned())));
    server.reply(Says::Refusal("canary".to_owned()));
    let error = openai(&server, limits()).ask(&question()).await.unwrap_err();
    assert_eq!((error.code(), error.fault()), ("refusal", ModelFault::Answer));
}

async fn faults(
    server: &Server,
    model: &dyn Model,
    quick: &dyn Model,
    more: Vec<(Answer, &str, ModelFault)>,
) {
    use ModelFault::{Answer as Unusable, Away};
    let mut all = vec![
        (Fault::Status(429, Some("7")), "rate_limit", Away),
        (Fault::Status(500, None), "upstream", Away),
        (Fault::Status(503, None), "upstream", Away),
        (Fault::HoldHead, "timeout", Away),
        (Fault::HoldBody { after: 5 }, "timeout", Away),
        (Fault::CutHead, "cut", Away),
        (Fault::CutBody { after: 5 }, "cut", Away),
        (Fault::Garbage, "malformed", Unusable),
        (Fault::Huge(100_000_000), "too_large", Unusable),
        (Fault::Redirect(307, "https://example.com/".to_owned()), "bad_redirect", Unusable),
    ];
    all.extend(more.into_iter().map(|(answer, code, fault)| (Fault::Answer(answer), code, fault)));
    for (fault, code, class) in all {
        server.faults.push(fault.clone());
        let found =
            if code == "timeout" { quick.ask(&question()).await } else { model.ask(&question()).await };
        let error = found.unwrap_err();
        assert_eq!((error.code(), error.fault()), (code, class), "{fault:?}");
        assert_eq!(error.retry_after().is_some(), code == "rate_limit", "{fault:?}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn faults_of_workers_ai() {
    let server = StandIn::start().await;
    let (model, quick) = (workers_ai(&server, MODEL, limits()), workers_ai(&server, MODEL, hasty()));
    let more = vec![
        (StandIn::error(400, 5004), "permanent", ModelFault::Answer),
        (StandIn::error(403, 5018), "configuration", ModelFault::Settings),
        (StandIn::error(408, 3007), "upstream", ModelFault::Away),
        (StandIn::error(200, 5024), "permanent", ModelFault::Answer),
    ];
    faults(&server, &model, &quick, more).await;
    server.quota(1);
    model.ask(&question()).await.unwrap();
    let error = model.ask(&question()).await.unwrap_err();
    assert_eq!((error.code(), error.fault()), ("quota", ModelFault::Away));
    let unknown = workers_ai(&server, "no-such-model", limits()).ask(&question()).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.fault()), ("not_found", ModelFault::Settings));
    let wrong = Secret::new("canary".to_owned());
    let wrong =
        WorkersAi::new(http(&[server.url()]), url(&server.url()), server.account(), &wrong, MODEL, limits());
    let error = wrong.unwrap().ask(&question()).await.unwrap_err();
    assert_eq!((error.code(), error.fault()), ("configuration", ModelFault::Settings));
}

#[tokio::test]
async fn faults_of_openai_as_a_model() {
    let server = OpenAiStandIn::start().await;
    let error = |status, kind: &str, code| OpenAiStandIn::error(status, kind, Some(code));
    let more = vec![
        (error(429, "insufficient_quota", "insufficient_quota"), "insufficient_quota", ModelFault::Away),
        (error(401, "invalid_request_error", "invalid_api_key"), "configuration", ModelFault::Settings),
        (error(404, "invalid_request_error", "model_not_found"), "no_such_model", ModelFault::Settings),
        (error(400, "invalid_request_error", "context_length_exceeded"), "permanent", ModelFault::Answer),
    ];
    faults(&server, &openai(&server, limits()), &openai(&server, hasty()), more).await;
}
