#include "client/commands/arguments/source_options.h"

#include <CLI/CLI.hpp>

namespace muster {

void AddSourceOptions(CLI::App& command, SourceArguments& arguments) {
  command.add_option("--field", arguments.field,
                     "Field of JSON lines or column of Parquet with the text or the messages, if "
                     "it is not known by its "
                     "name: text, prompt and completion, messages, conversations");
  command.add_option("--model", arguments.model,
                     "Folder with the chat template, if chats are read and the tokenizer's folder "
                     "has none");
  command
      .add_option("--template", arguments.template_name,
                  "Name of the chat template, if there are several")
      ->capture_default_str();
  command.add_option("--raw", arguments.raw,
                     "Type of tokens in files that have nothing else, such as u16 for nanoGPT's");
}

}  // namespace muster
