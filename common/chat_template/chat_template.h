#ifndef MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_H_
#define MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_H_

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/chat_template/values/chat_template_limits.h"

namespace muster {

struct SyntaxTree;

// Bytes [begin, end) of a rendered text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};

struct RenderedChat {
  std::string text;
  // {% generation %} blocks printed this, in order, which a model is to learn. Empty ranges are not
  // among them.
  std::vector<ByteRange> generated;
};

struct RenderOptions {
  // strftime_now tells this. Without it the function is undefined, which templates ask for, so the
  // text depends on the values alone.
  std::optional<absl::Time> now;
  absl::TimeZone zone = absl::UTCTimeZone();
};

// A chat template as it stands in tokenizer_config.json: turns a chat into the text that a model
// was trained on. Understands the subset of Jinja that published templates use, and renders it as
// Hugging Face's apply_chat_template does (trim_blocks and lstrip_blocks, no HTML escapes, tojson
// as Python's json.dumps); docs of Jinja hold for what is in it.
//
// In the subset: if, for (with if and else), set, macro, generation, break, continue, raw;
// all operators; slices; filters, tests, methods and functions by name
// (values/filters.h, value_tests.h, methods.h). Apart from Jinja: integers have 64 bits; the cases
// of letters are changed in ASCII alone; a list is not within itself; what a filter such as map
// returns is gone through once, or is an error.
//
// A template is somebody else's program. It reads only what it is given, and what it costs is
// bounded (values/chat_template_limits.h).
class ChatTemplate {
 public:
  // Returns InvalidArgument with line and column, and the name of what is not in the subset.
  static absl::StatusOr<ChatTemplate> Parse(absl::string_view text,
                                            const ChatTemplateLimits& limits = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Renders with the members of `values`, a JSON object: messages, add_generation_prompt,
  // bos_token, eos_token, tools and what else a template asks for. As with Hugging Face, pass null
  // for tools and documents that a chat does not have. Returns InvalidArgument where Jinja raises
  // an error, where the template calls raise_exception (with its text), and past a limit. Threads
  // may call this at the same time.
  absl::StatusOr<RenderedChat> Render(const nlohmann::ordered_json& values,
                                      const RenderOptions& options = {}) const;

  // Returns whether the template has {% generation %} blocks.
  bool marks_generation() const;

 private:
  ChatTemplate(std::unique_ptr<const SyntaxTree> tree, const ChatTemplateLimits& limits);

  std::unique_ptr<const SyntaxTree> tree_;
  ChatTemplateLimits limits_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_CHAT_TEMPLATE_CHAT_TEMPLATE_H_
