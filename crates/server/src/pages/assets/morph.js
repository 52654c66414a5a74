// Makes one tree of nodes look like another and touches only what differs, so
// that focus, selections, open folds and half-filled forms stay.
//
// Attributes that begin with data-ui are the browser's own and are left alone;
// so is whether a fold is open.

/** Makes `old` look like `fresh`. */
export function morph(old, fresh) {
  attributes(old, fresh);
  children(old, fresh);
}

function attributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (!ours(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!ours(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function ours(name) {
  return name === "open" || name.startsWith("data-ui");
}

function children(old, fresh) {
  const byId = new Map();
  for (const child of old.children) if (child.id) byId.set(child.id, child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const found = match(at, wanted, byId);
    if (!found) {
      const added = document.importNode(wanted, true);
      if (added.id && added.localName === "tr") added.dataset.uiNew = "";
      old.insertBefore(added, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else old.insertBefore(found, at);
    if (found.nodeType === Node.ELEMENT_NODE) morph(found, wanted);
    else if (found.data !== wanted.data) found.data = wanted.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** The old node that `wanted` is the new form of, if there is one. */
function match(at, wanted, byId) {
  if (wanted.id) {
    const known = byId.get(wanted.id);
    return known && known.localName === wanted.localName ? known : null;
  }
  const same = at && at.nodeType === wanted.nodeType && at.localName === wanted.localName && !at.id;
  return same ? at : null;
}
