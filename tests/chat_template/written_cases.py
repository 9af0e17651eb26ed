"""Templates in the style of published families, and small ones for each part of the subset."""

TEMPLATES = {
    # Headers around each role; the first system message goes into the header.
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if strftime_now is defined %}
    {%- set today = strftime_now("%d %b %Y") %}
{%- else %}
    {%- set today = "1 Jan 2020" %}
{%- endif %}
{#- The first message may be the system's. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<head>system</head>\\n\\nToday: " + today + "\\n" }}
{%- if tools is not none %}
    {{- "Functions:\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system + "<end>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<head>' + message['role'] + '</head>\\n\\n' + message['content'] | trim + '<end>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<head>assistant</head>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<end>" }}
    {%- else %}
        {{- "<head>tool</head>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<end>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<head>assistant</head>\\n\\n' }}
{%- endif %}
""",
    "chatml": """{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|s|>system\\nYou help.<|e|>\\n' }}
{% endif %}
{{ '<|s|>' + message['role'] + '\\n' }}{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] ~ '<|e|>' }}{% endgeneration %}
{% else %}{{ message['content'] ~ '<|e|>' }}{% endif %}{{ '\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<|s|>assistant\\n' }}{% endif %}
""",
    # Thoughts are kept after the last question alone.
    "thinking": """{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- set thought = '' %}
    {%- if message.thought is defined and message.thought is not none %}
        {%- set thought = message.thought %}
    {%- elif content is string and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}
        {{- '[' ~ message.role ~ ']<think>\\n' ~ thought.strip('\\n') ~ '\\n</think>\\n\\n' ~ content }}
    {%- else %}
        {{- '[' + message.role + ']' + (content if content is string else content | tojson) }}
    {%- endif %}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<call>' ~ call.name ~ ' ' ~ (call.arguments if call.arguments is string else call.arguments | tojson) ~ '</call>' }}
        {%- endfor %}
    {%- endif %}
    {%- if loop.last or loop.nextitem.role != "tool" %}{{- '.' }}{%- endif %}
{%- endfor %}
""",
    # Roles take turns, and the system's words go before the first or last question.
    "turns": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" and message.content is not none %}
        {{- message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
""",
    # Two roles, of which one has another name in the text.
    "model": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<turn>' + role + '\\n' + message['content'] | trim + '</turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<turn>model\\n'}}{% endif %}
""",
    "tags": """{% for message in messages %}
    {% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}
    {% elif message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
    {% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + (message['content'] or '') + eos_token }}
    {% endif %}
    {%- if loop.last and add_generation_prompt %}

{{ '<|assistant|>' }}
    {% endif %}
{% endfor %}
""",
    # Functions are told with the system's words, which there always are; results of one kind share a turn.
    "functions": """{%- if tools %}
    {{- '<s>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Functions\\n<functions>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</functions>\\nCall with {\\"name\\": <name>, \\"arguments\\": <object>}<e>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<s>system\\n' + messages[0]['content'] + '<e>\\n' }}
    {%- else %}
        {{- '<s>system\\nYou are a helpful assistant.<e>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<s>' + message.role + '\\n' + message.content + '<e>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<s>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function is defined %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<call>\\n{"name": "' }}
            {{- call.name }}
            {{- '", "arguments": ' }}
            {{- call.arguments | tojson }}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<e>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<s>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' }}
        {{- message.content }}
        {{- '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<e>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<s>assistant\\n' }}
{%- endif %}
""",
    # A macro that calls itself for types within types.
    "macros": """{%- macro type_of(spec, mark="?") %}
    {%- set names = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
    {%- if spec.type is defined and names[spec.type] is defined %}
        {{- names[spec.type] }}
    {%- elif spec.type == "array" %}
        {{- "list[" + type_of(spec["items"]) + "]" }}
    {%- elif spec.type == "object" %}
        {%- if spec.properties is defined %}
            {{- "{" }}
            {%- for name, each in spec.properties | dictsort %}
                {{- name ~ ": " ~ type_of(each, mark=mark) ~ ("" if loop.last else ", ") }}
            {%- endfor %}
            {{- "}" }}
        {%- else %}
            {{- "dict" }}
        {%- endif %}
    {%- else %}
        {{- mark }}
    {%- endif %}
{%- endmacro %}
{%- for tool in tools or [] %}
    {%- set f = tool.function %}
    {%- set sign %}
def {{ f.name | upper }}({{ f.parameters.properties | map('capitalize') | join(', ') }}):
    {{ f.description | default('-', true) | indent(2) }}
{% endset %}
    {{- sign ~ type_of(f.parameters, '!') ~ '\\n' }}
    {{- f.parameters.required | reject('equalto', 'unit') | list }}
{%- endfor %}
{%- for message in messages if message.role != 'system' %}
    {%- if message.role == 'tool' %}{% continue %}{% endif %}
    {{- loop.index ~ '/' ~ loop.length ~ message.role | title }}
    {%- if loop.index > 3 %}{% break %}{% endif %}
{%- else %}
    {{- 'nothing' }}
{%- endfor %}
""",
}

TOOLS = [{
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.\nIn \"words\" <b>é</b>.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "array", "items": {"type": "integer"}},
                "unit": {"type": "string", "enum": ["°C", "°F"]},
                "more": {"type": "object", "properties": {"x": {"type": "number"}, "a": {}}},
            },
            "required": ["city", "unit"],
        },
        "return": {"type": "number"},
    },
}]


def chats():
    """Returns values to render with."""
    plain = [
        {"role": "user", "content": "Hello there \n"},
        {"role": "assistant", "content": "  Hi! <think>\n\nhm\n</think>\n\nWhat's up?"},
        {"role": "user", "content": "日本語 😀 and {{ braces }}"},
    ]
    calls = plain + [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a1", "function": {"name": "weather", "arguments": {"city": "Köln", "days": [1, 2], "x": 1.5}}}]},
        {"role": "tool", "content": "12.5"},
        {"role": "assistant", "content": "It is 12.5 °C.", "thought": "\nwarm\n"},
    ]
    system = {"role": "system", "content": " Be brief. "}
    common = {"bos_token": "<s>", "eos_token": "</s>", "tools": None}
    return [
        {"messages": plain, "add_generation_prompt": True, **common},
        {"messages": plain[:2], "add_generation_prompt": False, **common},
        {"messages": [system] + plain, "add_generation_prompt": True, **common},
        {"messages": calls, "add_generation_prompt": False, **common, "tools": TOOLS},
        {"messages": [system] + calls, "add_generation_prompt": True, **common, "tools": TOOLS},
        {"messages": plain[1:], "add_generation_prompt": False, **common},
    ]


SMALL_VALUES = {
    "n": 7, "f": 2.5, "s": "Héllo wörld", "a": "it's a-test (of) it", "t": True, "z": None, "e": "",
    "l": [1, 2.0, "x", None, True, [3, "q'\""]], "d": {"b": 1, "a": {"k": "v"}, "é": "\t\u200b\u00a0"}, "text": " \n x y\u3000",
    "rows": [{"n": 1, "k": "p"}, {"n": 2, "k": "q"}, {"n": 3, "k": "p"}],
}

# Each is rendered by Jinja without an error.
SMALL = [
    "{{ n }} {{ f }} {{ t }} {{ z }} {{ l }} {{ d }} {{ nothing }}|",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}",
    "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.0 }} {{ 1e300 * 1e10 }} {{ 1_000 }}",
    "{{ 'a' * 3 }}{{ 2 * 'ab' }}{{ [1] * 2 }}{{ 'x' * -1 }}|{{ [1] + [2] }}{{ (1,) + (2, 3) }}{{ () }}{{ (1) }}{{ 1, 2 }}",
    "{{ 2 * 3 ~ 4 }} {{ 'a' + 1 ~ 2 }} {{ (2 * 3 ~ 4) | int - 1 }} {{ not 1 == 2 }} {{ not t and t }} {{ t or z and z }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 == true }} {{ 'é' > 'z' }}",
    "{{ 'l' in s }} {{ 'q' not in s }} {{ 2 in l }} {{ 'b' in d }} {{ 'k' in d.a }} {{ 1 in nothing }} {{ none in l }}",
    "{{ l[0] }} {{ l[-1] }} {{ l[9] }} {{ s[1] }} {{ s[-1] }} {{ d['b'] }} {{ d.b }} {{ d['no'] }} {{ l.0 }} {{ d.a.k }}",
    "{{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ l[::2] }} {{ l[4:1:-2] }} {{ l[10:] }} {{ l[:-2] }} {{ s[5:1] }}|{{ s[:] }}",
    "{{ s | length }} {{ l | length }} {{ d | count }} {{ nothing | length }} {{ text | trim }}| {{ a | trim('it') }}",
    "{{ s | upper if false else 'x' }} {{ a | upper }} {{ 'ABC' | lower }} {{ a | title }} {{ a.title() }} {{ a | capitalize }}",
    "{{ l | first }} {{ l | last }} {{ [] | first }} {{ s | first }} {{ s | last }} {{ d | first }} {{ l | join }} {{ s | join('-') }}",
    "{{ rows | map(attribute='k') | join(', ') }} {{ rows | selectattr('k', 'eq', 'p') | map(attribute='n') | list }}",
    "{{ rows | rejectattr('n', 'gt', 1) | list | length }} {{ l | select('string') | list }} {{ l | reject('none') | list }}",
    "{{ rows | join('; ', attribute='n') }} {{ l | select | list }} {{ rows | map(attribute='no', default='-') | list }}",
    "{{ d | tojson }} {{ l | tojson }} {{ d | tojson(indent=2) }} {{ l | tojson(indent=1) }} {{ [] | tojson }} {{ {} | tojson(indent=4) }}",
    "{{ s | tojson(ensure_ascii=true) }} {{ '😀' | tojson(ensure_ascii=true) }} {{ d | tojson(separators=(',', ':'), sort_keys=true) }}",
    "{{ '<a>&\\x01\\\"\\\\ \\x7f' | tojson }} {{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }} {{ (1, 'a') | tojson }} {{ 1e20 | tojson }}",
    "{{ nothing | default('x') }} {{ e | default('x') }} {{ e | default('x', true) }} {{ z | d(1, boolean=true) }} {{ n | d }}",
    "{{ a | replace('it', 'I') }} {{ a | replace('t', 'T', 1) }} {{ a.replace('', '.') }} {{ 'aaa'.replace('aa', 'b') }}",
    "{{ '7' | int }} {{ ' 8 ' | int }} {{ 'x' | int }} {{ 'x' | int(3) }} {{ 2.9 | int }} {{ '2.9' | int }} {{ t | int }} {{ '1.5' | float }}",
    "{{ n | string | length }} {{ s | list }} {{ d | list }} {{ d | items | list }} {{ d.items() | list }} {{ d.keys() | list }}",
    "{{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.get('b') }} {{ d.get('x') }} {{ d.get('x', 5) }}",
    "{{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}",
    "{{ text.strip() }}|{{ text.lstrip() }}|{{ text.rstrip() }}|{{ 'xxaxx'.strip('x') }} {{ 'abc'.lstrip('ba') }} {{ 'é!é'.rstrip('é') }}",
    "{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b c '.split(none, 1) }} {{ ''.split(',') }}",
    "{{ s.startswith('H') }} {{ s.endswith(('x', 'd')) }} {{ s.find('w') }} {{ s.find('q') }} {{ '-'.join(['a', 'b']) }}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }},{% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}{% for x in [] %}{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for c in 'hé' %}{{ c }}.{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for x in range(6) if x % 2 %}{{ loop.index }}:{{ x }} {% endfor %}{{ range(5)[2] }}{{ range(1, 9, 3) | list }}{{ range(3)[1:] | list }}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + 1 %}{% endfor %}{{ ns.c }}{{ ns.no }}{{ ns['c'] }}",
    "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set q %} {{ a }} {% set a = 5 %}{% endset %}{{ q }}{{ a }}",
    "{% macro m(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m() }}{{ m(b=2, a=n) }}",
    "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}{% for v in [5] %}{{ m() }}{{ v }}{% endfor %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{{ 'y' if n else 'z' }}{{ 'y' if z }}|{{ 1 if z else 2 if t else 3 }}",
    "  {% if t %}  \n   x\n  {% endif %}  \n\n{# note #}\n  {{ n }}  \n  {%+ if t %}y{% endif +%}\nz",
    "a  {%- if t -%}  b  {%- endif -%}  c {{- n -}} d\n\n{#- c -#}\n\n e {% raw %} {{ x }} {% endraw %} f\r\ng\rh\n",
    "{% raw -%}   {% if %}  {%- endraw %}  \n x {%- raw %}\n{{ y }}{% endraw %}\n!\n\n",
    "\n\n  {% set x = 1 %}  {% set y = 2 %}\n  {{ x }}{{ y }}\n{% for i in [1, 2] %}\n  - {{ i }}\n{% endfor %}\nend\n\n",
    "{{ 'a\\nb\\t\\u00e9\\x41\\101\\'\\q' }}{{ \"a'b\" 'c' }}{{ ['a\\'b', 'a\"b', 'a\\'\"b', 'a\\\\b\\n'] }}",
    "{{ n is defined }} {{ nothing is defined }} {{ nothing is not defined }} {{ z is none }} {{ z is not none }} {{ s is string }}",
    "{{ d is mapping }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ l is sequence }} {{ d is sequence }} {{ n is number }}",
    "{{ t is number }} {{ t is boolean }} {{ n is boolean }} {{ t is true }} {{ t is false }} {{ 1 is true }} {{ n is integer }} {{ t is integer }}",
    "{{ f is float }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is in [7] }} {{ n is ne 7 }}",
    "{{ nothing is undefined }} {{ range is callable }} {{ raise_exception is defined }} {{ z.x }} {{ s.x }} {{ n.x is defined }}",
    "{{ '%s' ~ n }} {{ d['items'] is defined }} {{ d.items is string }} {{ d.items is mapping }} {{ l | reverse | list }} {{ 'abc' | reverse }}",
    "{{ 'a\\n\\nb' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent(1, blank=true) }}|{{ 'a' | indent('>', first=true) }}",
    "{% for x in l %}{% if loop.index == 2 %}{% continue %}{% endif %}{% if x is none %}{% break %}{% endif %}{{ x }},{% endfor %}",
    "x{% generation %}é{% for i in [1, 2] %}{{ i }}{% endfor %}{% set s = 1 %}{% endgeneration %}{{ s }}{% generation %}{% endgeneration %}{% generation %}y{% endgeneration %}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %a %b %j %y %I %p %%') }}{{ dict(a=1, b='x') }}{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 100 / 3.0 }}",
    "{{ messages is defined and messages[0] }} {{ t and 'x' or 'y' }} {{ [] or {} or 'q' }} {{ +n }} {{ -f }} {{ - - n }} {{ n|string ~ 'x' }}",
]

# For each of these Jinja raises an error.
ERRORS = [
    "{{ nothing.x }}", "{{ nothing['x'] }}", "{{ 1 + 2 ~ 3 }}", "{{ '%d' % z }}", "{{ nothing + 1 }}", "{{ s + 1 }}", "{{ 1 / 0 }}", "{{ z | length }}",
    "{{ z < 1 }}", "{{ 1 in s }}", "{{ l.append(1) }}", "{% for x in n %}{% endfor %}", "{{ raise_exception('no') }}",
    "{{ m() }}", "{% set d.x = 1 %}", "{{ nothing | tojson }}", "{{ d | dictsort(by='x') }}", "{{ s.split('') }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{{ s | nofilter }}",
    "{{ s is notest }}", "{% nothing %}", "{% if t %}", "{{ s", "{% endif %}", "{{ 'a }}", "{# a", "{{ 1 + }}", "{{ (1 }}",
    "{% for x in l %}", "{{ [1, 2 }}", "{% for a, b in l %}{% endfor %}", "{{ 2 ** 'x' }}", "{{ -s }}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{{ s[::0] }}", "{{ d[1:] }}", "{{ {[]: 1} }}",
]
