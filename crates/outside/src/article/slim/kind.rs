//! What is done with an element, by its name.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The title of the page: text until its end.
    Title,
    /// Text until its end that nobody reads.
    Raw,
    /// Left out with all that is in it, if it ends.
    Unseen,
    /// Its tags are left out, and what is in it stays.
    Nothing,
    /// Has nothing in it.
    Void,
    Inline,
    Block,
}

pub(super) fn kind(name: &str) -> Kind {
    match name {
        "title" => Kind::Title,
        "script" | "style" | "textarea" | "iframe" | "noembed" | "noframes" | "xmp" => Kind::Raw,
        "noscript" | "template" | "svg" | "math" | "select" | "object" | "canvas" | "audio" | "video"
        | "map" | "button" | "datalist" => Kind::Unseen,
        // Formatting elements are opened again by a parser wherever they were not closed, without end; and the
        // frame of a page is made by it anyway.
        "html" | "head" | "body" | "meta" | "link" | "base" | "img" | "image" | "input" | "embed"
        | "source" | "track" | "param" | "area" | "col" | "wbr" | "frame" | "frameset" | "plaintext"
        | "keygen" | "b" | "i" | "u" | "s" | "em" | "strong" | "font" | "big" | "small" | "tt" | "code"
        | "strike" | "nobr" | "picture" | "applet" | "marquee" | "basefont" | "bgsound" | "isindex"
        | "listing" | "option" | "optgroup" | "rb" | "rt" | "rtc" | "rp" | "caption" | "colgroup" => {
            Kind::Nothing
        }
        "br" | "hr" => Kind::Void,
        "address" | "article" | "aside" | "blockquote" | "center" | "dd" | "details" | "dialog" | "dir"
        | "div" | "dl" | "dt" | "fieldset" | "figcaption" | "figure" | "footer" | "form" | "h1" | "h2"
        | "h3" | "h4" | "h5" | "h6" | "header" | "hgroup" | "legend" | "li" | "main" | "menu" | "nav"
        | "ol" | "p" | "pre" | "search" | "section" | "summary" | "table" | "tbody" | "td" | "tfoot"
        | "th" | "thead" | "tr" | "ul" => Kind::Block,
        _ => Kind::Inline,
    }
}

/// Whether words on its two sides are two words.
pub(in crate::article) fn separates(name: &str) -> bool {
    kind(name) == Kind::Block || matches!(name, "br" | "hr")
}
