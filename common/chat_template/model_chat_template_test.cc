#include "common/chat_template/model_chat_template.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kTurns[] =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

class ModelChatTemplateTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder() + "/" + name) << text;
  }
  void WriteConfig(const nlohmann::json& chat_template) {
    nlohmann::json config = {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}};
    if (!chat_template.is_null()) config["chat_template"] = chat_template;
    Write("tokenizer_config.json", config.dump());
  }
  std::string Rendered(const std::string& chat, ChatEnd end = ChatEnd::kAsItIs,
                       const std::string& name = "default") {
    const auto opened = ModelChatTemplate::Open(folder(), name);
    if (!opened.ok()) return std::string(opened.status().message());
    const auto rendered = opened->Render(nlohmann::ordered_json::parse(chat), end);
    return rendered.ok() ? rendered->text : std::string(rendered.status().message());
  }
  std::string folder() const { return temp_.path(); }

  const TempFolder temp_;
  const std::string chat_ = R"([{"role": "user", "content": "Hi"}])";
};

TEST_F(ModelChatTemplateTest, TakesTheTokensOfTheModelAndAsksForAnAnswer) {
  WriteConfig(kTurns);
  EXPECT_EQ(Rendered(chat_), "<s>[user]Hi</s>");
  EXPECT_EQ(Rendered(chat_, ChatEnd::kAsksForAnswer), "<s>[user]Hi</s>[assistant]");
  EXPECT_EQ(Rendered(R"({"messages": [], "bos_token": "B"})"), "B");
}

TEST_F(ModelChatTemplateTest, ToolsKeepTheOrderOfTheirFields) {
  WriteConfig("{{ tools | tojson }}");
  EXPECT_EQ(Rendered(R"({"messages": [], "tools": [{"b": 1, "a": 2}]})"), R"([{"b": 1, "a": 2}])");
}

TEST_F(ModelChatTemplateTest, OneOfSeveralByName) {
  WriteConfig({{{"name", "default"}, {"template", "plain"}},
               {{"name", "tool_use"}, {"template", "with tools"}}});
  EXPECT_EQ(Rendered(chat_), "plain");
  EXPECT_EQ(Rendered(chat_, ChatEnd::kAsItIs, "tool_use"), "with tools");
  EXPECT_THAT(Rendered(chat_, ChatEnd::kAsItIs, "rag"),
              HasSubstr("has no chat template \"rag\"; it has default, tool_use"));
}

TEST_F(ModelChatTemplateTest, AFileOfItsOwnComesFirst) {
  WriteConfig("in the configuration");
  Write("chat_template.jinja", "{{ bos_token }}in the file");
  EXPECT_EQ(Rendered(chat_), "<s>in the file");
}

TEST_F(ModelChatTemplateTest, ErrorsNameTheFileAndWhatToDo) {
  EXPECT_THAT(Rendered(chat_), HasSubstr("name the folder of a model that was trained on chats"));
  WriteConfig(nullptr);
  EXPECT_THAT(Rendered(chat_), HasSubstr("has no chat template: neither"));
  WriteConfig("{% if %}");
  EXPECT_THAT(Rendered(chat_), HasSubstr("tokenizer_config.json: "));
  WriteConfig({1});
  EXPECT_THAT(Rendered(chat_), HasSubstr("something else than names and templates"));
  WriteConfig(kTurns);
  EXPECT_THAT(Rendered("{}"), HasSubstr("a chat is a list of messages"));
}

}  // namespace
}  // namespace muster
