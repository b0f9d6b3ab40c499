from contexture import Client

with Client() as client:  # starts a local server
    client.record_text(source="notes", text="The dog is called Rufus.")
    print(client.recall(query="What is the dog called?", max_tokens=500).content)
