#include "client/terminal/help_formatter.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr size_t kWidth = 80;
constexpr char kExample[] = "Example: ";

// Returns where the lines that follow this one begin.
size_t IndentAfter(absl::string_view line) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  if (line.substr(first, sizeof(kExample) - 1) == kExample) return first + sizeof(kExample) - 1;
  // In a list two blanks or more are between the name and its description.
  const size_t gap = first == 0 ? absl::string_view::npos : line.find("  ", first);
  if (gap == absl::string_view::npos) return first;
  const size_t description = line.find_first_not_of(' ', gap);
  return description == absl::string_view::npos ? first : description;
}

void AppendWrapped(absl::string_view line, size_t width, std::vector<std::string>& lines) {
  const size_t indent = IndentAfter(line);
  std::string rest(line);
  while (rest.size() > width) {
    // The last blank that has more than indentation before it; else the first one.
    size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || at <= indent) at = rest.find(' ', indent);
    if (at == std::string::npos) break;
    lines.push_back(rest.substr(0, at));
    rest =
        absl::StrCat(std::string(indent, ' '), absl::StripLeadingAsciiWhitespace(rest.substr(at)));
  }
  lines.push_back(rest);
}

// Returns the values that an option takes in plain words; CLI11 says "INT:INT in [1 - 16]=1",
// "TEXT:{a,b}" and "INT:POSITIVE".
std::string PlainValues(const std::string& values) {
  const std::vector<std::string> parts = absl::StrSplit(values, absl::MaxSplits(':', 1));
  if (parts.size() == 1) return values;
  absl::string_view check = parts[1];
  if (absl::ConsumePrefix(&check, "POSITIVE")) return absl::StrCat(parts[0], check);
  const size_t end = check.find_first_of("]}");
  if (end == absl::string_view::npos) return values;
  const absl::string_view rest = check.substr(end + 1);
  check = check.substr(0, end);
  if (absl::ConsumePrefix(&check, "{")) {
    return absl::StrCat(" ", absl::StrReplaceAll(check, {{",", "|"}}), rest);
  }
  const std::vector<std::string> range = absl::StrSplit(check, absl::MaxSplits(" in [", 1));
  if (range.size() == 1) return values;
  return absl::StrCat(parts[0], rest, ", ", absl::StrReplaceAll(range[1], {{" - ", " to "}}));
}

}  // namespace

std::string WrapLines(absl::string_view text, size_t width) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    AppendWrapped(line, width, lines);
  }
  return absl::StrJoin(lines, "\n");
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  return WrapLines(CLI::Formatter::make_help(app, std::move(name), mode), kWidth);
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  const std::string values = CLI::Formatter::make_option_opts(option);
  return option->get_option_text().empty() ? PlainValues(values) : values;
}

}  // namespace muster
