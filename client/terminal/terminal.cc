#include "client/terminal/terminal.h"

#include "common/text/printable.h"

namespace muster {
namespace {

void Write(std::FILE* file, const std::string& shown) {
  std::fwrite(shown.data(), 1, shown.size(), file);
  std::fflush(file);
}

}  // namespace

void WriteText(std::FILE* file, absl::string_view text) { Write(file, PrintableText(text)); }

void PrintJsonText(absl::string_view json) { Write(stdout, PrintableJson(json) + "\n"); }

}  // namespace muster
