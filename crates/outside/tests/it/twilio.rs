//! Twilio's client against its stand-in.

use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_outside::twilio::{MEDIA_BYTES_MAX, Media, Twilio, TwilioError, is_signed_form};
use windlass_standins::{Ask, Fault, Twilio as StandIn};

use crate::common::{hasty, http, limits, url};

const AUDIO: &[&str] = &["audio/"];

fn client(server: &StandIn, limits: Limits) -> Twilio {
    let token = Secret::new(server.token());
    let http = http(&[server.url(), server.cdn.url()]);
    Twilio::new(http, url(&server.url()), server.account(), &token, limits).unwrap()
}

async fn read(mut media: Media) -> Result<Vec<u8>, TwilioError> {
    let mut all = Vec::new();
    while let Some(piece) = media.chunk().await? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

async fn fetch(server: &StandIn, limits: Limits) -> Result<Vec<u8>, TwilioError> {
    read(client(server, limits).media(&server.media_url("MM1", "ME1"), AUDIO).await?).await
}

#[tokio::test]
async fn media_come_from_the_second_host_without_credentials() {
    let server = StandIn::start().await;
    let media = client(&server, limits()).media(&server.media_url("MM1", "ME1"), AUDIO).await.unwrap();
    assert_eq!(media.essence(), "audio/ogg");
    let bytes = media.declared_bytes().unwrap();
    let content = read(media).await.unwrap();
    assert!(content.starts_with(b"OggSME1") && content.len() as u64 == bytes);
    assert!(server.asked()[0].has_credentials());
    assert!(!server.cdn.asked().iter().any(Ask::has_credentials));
}

#[tokio::test]
async fn media_up_to_the_limit_and_beyond() {
    let server = StandIn::start().await;
    let generous = Limits { bytes_max: u64::MAX, ..limits() };
    server.put("ME1", "audio/mpeg", vec![1; MEDIA_BYTES_MAX as usize]);
    assert_eq!(fetch(&server, generous).await.unwrap().len() as u64, MEDIA_BYTES_MAX);
    server.put("ME1", "audio/mpeg", vec![1; MEDIA_BYTES_MAX as usize + 1]);
    assert_eq!(fetch(&server, generous).await.unwrap_err().code(), "too_large");
    // One that does not say how large it is.
    server.cdn.faults.push(Fault::Huge(MEDIA_BYTES_MAX + 1));
    assert_eq!(fetch(&server, generous).await.unwrap_err().code(), "too_large");
}

#[tokio::test]
async fn what_is_missing_may_come_later() {
    let server = StandIn::start().await;
    server.faults.push(Fault::Status(404, None));
    let error = fetch(&server, limits()).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("missing", true));
    assert!(fetch(&server, limits()).await.is_ok());
}

#[tokio::test]
async fn faults_of_both_hosts() {
    let server = StandIn::start().await;
    let check = async |at_home: bool, fault: Fault, code: &str, transient: bool| {
        let host = if at_home { &server.faults } else { &server.cdn.faults };
        host.push(fault.clone());
        let limits = if code == "timeout" { hasty() } else { limits() };
        let error = fetch(&server, limits).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
    };
    check(true, Fault::Status(401, None), "configuration", false).await;
    check(true, Fault::Status(403, None), "configuration", false).await;
    check(true, Fault::Status(429, Some("5")), "status", true).await;
    check(true, Fault::Status(500, None), "status", true).await;
    check(true, Fault::HoldHead, "timeout", true).await;
    check(true, Fault::Redirect(302, "http://169.254.169.254/latest".to_owned()), "refused", false).await;
    check(false, Fault::HoldBody { after: 100 }, "timeout", true).await;
    check(false, Fault::CutBody { after: 100 }, "cut", true).await;
    check(false, Fault::Type("text/html"), "wrong_kind", false).await;
    check(false, Fault::Status(403, None), "status", true).await;
    check(false, Fault::Status(410, None), "status", false).await;
    server.put("ME1", "audio/ogg", "");
    let error = fetch(&server, limits()).await.unwrap_err();
    assert_eq!(error, TwilioError::Empty);
}

#[tokio::test]
async fn a_wrong_token_and_a_strangers_address() {
    let server = StandIn::start().await;
    let http = http(&[server.url(), server.cdn.url()]);
    let token = Secret::new("wrong".to_owned());
    let wrong = Twilio::new(http, url(&server.url()), server.account(), &token, limits()).unwrap();
    let error = wrong.media(&server.media_url("MM1", "ME1"), AUDIO).await.unwrap_err();
    assert_eq!(error, TwilioError::Configuration { status: 401 });
    server.forget();
    let strange = server.cdn.url() + "/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME1";
    let error = client(&server, limits()).media(&strange, AUDIO).await.unwrap_err();
    assert_eq!(error, TwilioError::NotOurs);
    assert!(server.asked().is_empty() && server.cdn.asked().is_empty());
}

#[tokio::test]
async fn a_webhook_is_signed() {
    let server = StandIn::start().await;
    let (hook, token) = ("https://example.com/hook?a=1", Secret::new(server.token()));
    let signature = server.sign(hook, &[("From", "+1"), ("Body", "ä b")]);
    let form = |body: &str| vec![("Body".to_owned(), body.to_owned()), ("From".to_owned(), "+1".to_owned())];
    assert!(is_signed_form(&token, hook, &form("ä b"), &signature));
    assert!(!is_signed_form(&token, hook, &form("ä c"), &signature));
}

#[tokio::test]
async fn media_are_deleted_once() {
    let server = StandIn::start().await;
    let (twilio, address) = (client(&server, limits()), server.media_url("MM1", "ME1"));
    for _ in 0..2 {
        twilio.delete(&address).await.unwrap();
    }
    assert_eq!(fetch(&server, limits()).await.unwrap_err(), TwilioError::Missing);
}
