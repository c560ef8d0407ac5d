async function openView(button) {
  const packed = atob(button.parentElement.querySelector("script").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream();
  const unpacked = stream.pipeThrough(new DecompressionStream("gzip"));
  const frame = document.createElement("iframe");
  frame.title = "Interactive view";
  frame.width = button.dataset.width;
  frame.height = button.dataset.height;
  frame.srcdoc = await new Response(unpacked).text();
  button.replaceWith(frame);
}
