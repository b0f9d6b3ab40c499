import contexture

messages = [{"role": "system", "content": "Be brief."}]
for number in range(200):
    messages.append({"role": "user", "content": f"Question {number}: " + "why? " * 100})
    messages.append({"role": "assistant", "content": f"Answer {number}: " + "because. " * 50})
messages.append({"role": "user", "content": "What did I ask first?"})

request = {"model": "gpt-5.6", "messages": messages}
smaller = contexture.fit(request, max_tokens=8_000)
# response = openai.OpenAI().chat.completions.create(**smaller)
print(f"{len(messages)} messages became {len(smaller['messages'])}")
