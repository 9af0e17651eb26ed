#include "client/commands/arguments/complete_words.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/parse_error.h"

namespace muster {
namespace {

// Without the quotes and backslashes of a shell.
std::string Unquoted(const std::string& word) {
  std::string text;
  char quote = '\0';
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote != '\0' ? c == quote : c == '\'' || c == '"') {
      quote = quote != '\0' ? '\0' : c;
    } else if (c == '\\' && quote != '\'' && i + 1 < word.size()) {
      text.push_back(word[++i]);
    } else {
      text.push_back(c);
    }
  }
  return text;
}

bool IsBreak(const std::string& word) {
  return !word.empty() && word.find_first_not_of("=:@") == std::string::npos;
}

// The words as they were before bash broke them.
std::vector<std::string> Joined(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  bool joins = false;
  for (const std::string& word : words) {
    const bool is_break = IsBreak(word);
    if (!joined.empty() && (joins || is_break)) {
      joined.back() += word;
    } else {
      joined.push_back(word);
    }
    joins = is_break;
  }
  for (std::string& word : joined) word = Unquoted(word);
  return joined;
}

bool MeansNothingToAShell(const std::string& word) {
  return !word.empty() && word[0] != '-' && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::StrContains("_.+-", absl::string_view(&c, 1));
  });
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// The flag of this name, without a value, of a command or one above it.
CLI::Option* FindFlag(CLI::App* command, const std::string& flag) {
  for (CLI::App* app = command; app != nullptr; app = app->get_parent()) {
    for (CLI::Option* option : app->get_options()) {
      if (!option->get_positional() && option->check_name(flag)) return option;
    }
  }
  return nullptr;
}

// Walks the finished words of a line.
class Line {
 public:
  explicit Line(CLI::App& app) : app_(app), command_(&app) {}

  void Take(const std::string& word) {
    if (flag_ != nullptr) {
      SetIfGlobal(*flag_, word);
      flag_ = nullptr;
    } else if (word == "--") {
      no_flags_ = true;
    } else if (!no_flags_ && word.size() > 1 && word[0] == '-') {
      const size_t equals = word.find('=');
      CLI::Option* option = FindFlag(command_, word.substr(0, equals));
      if (option == nullptr || !TakesValue(*option)) return;
      if (equals == std::string::npos) {
        flag_ = option;
      } else {
        SetIfGlobal(*option, word.substr(equals + 1));
      }
    } else if (CLI::App* below = positionals_ == 0 ? Below(word) : nullptr; below != nullptr) {
      // Commands after `help` are looked up from the top.
      helps_ = helps_ || below->get_name() == "help";
      command_ = below->get_name() == "help" ? &app_ : below;
    } else {
      ++positionals_;
    }
  }

  // Returns what the unfinished word may become.
  template <typename Names>
  std::vector<std::string> Complete(const std::string& word, const Names& names) const {
    if (flag_ != nullptr) return Values(*flag_, "", word, names);
    if (!no_flags_ && absl::StartsWith(word, "-")) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) return Flags(word);
      CLI::Option* option = FindFlag(command_, word.substr(0, equals));
      if (option == nullptr || !TakesValue(*option)) return {};
      return Values(*option, word.substr(0, equals + 1), word.substr(equals + 1), names);
    }
    const std::vector<std::string> commands = CommandNames(*command_);
    if (!commands.empty()) {
      return positionals_ == 0 ? Beginning(commands, "", word) : std::vector<std::string>();
    }
    if (helps_) return {};
    std::vector<CLI::Option*> arguments;
    for (CLI::Option* option : command_->get_options()) {
      if (option->get_positional()) arguments.push_back(option);
    }
    if (arguments.empty()) return {};
    return Values(*arguments[std::min(positionals_, arguments.size() - 1)], "", word, names);
  }

 private:
  CLI::App* Below(const std::string& word) const {
    for (CLI::App* below : command_->get_subcommands([](CLI::App*) { return true; })) {
      if (below->get_name() == word && !below->get_group().empty()) return below;
    }
    return nullptr;
  }

  void SetIfGlobal(CLI::Option& option, const std::string& value) const {
    const std::vector<CLI::Option*> global = app_.get_options();
    if (std::count(global.begin(), global.end(), &option) == 0) return;
    option.clear();
    option.add_result(value);
    try {
      option.run_callback();
    } catch (const CLI::ParseError&) {
      // The command itself will say so.
    }
  }

  std::vector<std::string> Flags(const std::string& word) const {
    std::vector<std::string> flags;
    if (helps_) return flags;
    for (const CLI::App* app = command_; app != nullptr; app = app->get_parent()) {
      for (const CLI::Option* option : app->get_options()) {
        if (option->get_group().empty()) continue;
        for (const std::string& name : option->get_lnames()) {
          const std::string flag = "--" + name;
          // Each command has its own --help.
          if (std::count(flags.begin(), flags.end(), flag) == 0) flags.push_back(flag);
        }
      }
    }
    return Beginning(flags, "", word);
  }

  template <typename Names>
  static std::vector<std::string> Values(CLI::Option& option, std::string before, std::string value,
                                         const Names& names) {
    std::vector<std::string> all = ChoicesOf(option);
    if (all.empty()) {
      for (const std::string& name : names(option.get_type_name())) {
        if (MeansNothingToAShell(name)) all.push_back(name);
      }
      return Beginning(all, before, value);
    }
    if (const size_t comma = value.rfind(',');
        option.get_delimiter() == ',' && comma != value.npos) {
      before += value.substr(0, comma + 1);
      value = value.substr(comma + 1);
    }
    // Choices are taken in any case, so they are offered in the one that was begun with.
    if (std::any_of(value.begin(), value.end(), absl::ascii_islower)) {
      for (std::string& choice : all) absl::AsciiStrToLower(&choice);
    }
    return Beginning(all, before, value);
  }

  static std::vector<std::string> Beginning(const std::vector<std::string>& all,
                                            const std::string& before, const std::string& with) {
    std::vector<std::string> found;
    for (const std::string& each : all) {
      const std::string word = before + each;
      const bool again = std::count(found.begin(), found.end(), word) > 0;
      if (absl::StartsWith(each, with) && !again) found.push_back(word);
    }
    return found;
  }

  CLI::App& app_;
  CLI::App* command_;
  // The flag that the next word is the value of.
  CLI::Option* flag_ = nullptr;
  size_t positionals_ = 0;
  bool no_flags_ = false;
  bool helps_ = false;
};

}  // namespace

std::vector<std::string> CompleteWords(
    CLI::App& app, const std::vector<std::string>& words,
    const std::function<std::vector<std::string>(const std::string& type)>& names) {
  std::vector<std::string> joined = Joined(words);
  if (joined.empty()) joined.emplace_back();
  Line line(app);
  for (size_t i = 0; i + 1 < joined.size(); ++i) line.Take(joined[i]);
  return line.Complete(joined.back(), names);
}

}  // namespace muster
