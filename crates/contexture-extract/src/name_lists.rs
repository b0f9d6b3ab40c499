//! Lists of well-known names, as signs of the type of a proper name.
//!
//! The lists are not complete. A name that is missing has no sign of its own, so
//! the words around it decide. Words that are also common nouns, verbs or months
//! are left out.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Common first names.
const FIRST_NAMES: &str = "\
    Aaron Abigail Adam Adrian Agnes Ahmed Aisha Alan Albert Alejandro Alessandro Alex Alexander \
    Alexandra Alfred Ali Alice Alicia Alina Alison Alma Amanda Amelia Amir Amit Amy Ana Anastasia \
    Anders Andrea Andreas Andrei Andrew Andrey Andy Angela Angelika Anika Anita Anja Anke Anna \
    Anne Annette Annie Antje Anton Antonia Antonio Arjun Arne Arnold Arthur Arturo Astrid Audrey \
    Axel Barbara Beate Beatrice Ben Benjamin Bernard Bernd Bernhard Bianca Birgit Bjarne Bob \
    Boris Brandon Brenda Brian Brigitte Bruno Camila Camille Carl Carla Carlo Carlos Carmen \
    Carol Carolina Caroline Catherine Cecilia Charles Charlie Chiara Chloe Chris Christian \
    Christina Christine Christoph Christopher Claire Clara Claudia Clemens Cynthia Dagmar Daniel \
    Daniela Danielle David Deborah Denis Dennis Diana Diego Dieter Dietmar Dimitri Dmitri Dmitry \
    Dominik Donald Donna Doris Dorothea Dorothy Ebba Eduardo Edward Edwin Elaine Eleanor Elena \
    Eleni Elias Elif Elisa Elisabeth Eliza Elizabeth Elke Ella Ellen Elsa Emil Emilia Emily \
    Emma Eric Erica Erik Erika Ernesto Esther Ethan Eva Evelyn Fabian Fatima Federico \
    Felix Fernando Filip Fiona Florian Francesca Francesco Francis Francisco Franz Frieda \
    Friedrich Gabriel Gabriela Gabriele Gareth Gary Geoffrey George Georgios Gerald Gerd Gerhard \
    Giovanni Gisela Giulia Giuseppe Gloria Gordon Greg Gregory Greta Guillermo Gunnar Gunther \
    Gustav Hanna Hannah Hannes Hans Harald Harry Hassan Hector Heidi Heike Heinrich Heinz Helen \
    Helena Helga Helmut Henning Henri Henrik Henry Hermann Hilde Hiroshi Holger Horst Hugo \
    Hussein Ian Ibrahim Ida Igor Ilse Ines Inga Inge Ingrid Irene Irina Isaac Isabel Isabella \
    Ivan Jacob Jakob Jakub James Jamie Jan Jane Janet Janine Jason Javier Jean Jeff Jeffrey \
    Jelena Jennifer Jenny Jens Jeremy Jessica Jim Joachim Joan Joanna Johan Johanna Johannes \
    John Jon Jonas Jonathan Jordi Jorge Jose José Josef Joseph Joshua Juan Judith Julia Julian \
    Juliana Julie Julien Juliette Justin Jörg Jürgen Kamila Karen Karin Karina Karl Karla \
    Karolina Kasper Katarina Kate Katharina Katherine Kathleen Kathrin Katie Katja Katrin Keiko \
    Keith Kelly Kenji Kenneth Kerstin Kevin Khalid Kim Kirsten Klara Klaus Konrad Krishna \
    Kristin Kristina Krzysztof Kurt Larissa Larry Lars Laszlo Laura Lauren Laurent Lea Leila Lena Leo \
    Leon Leonard Leonardo Leonie Liam Lina Linda Lisa Liv Lorenzo Louis Louisa Louise Luca Lucas \
    Lucia Luis Luisa Lukas Luke Lydia Maja Magda Magdalena Magnus Manfred Manuel Manuela Mara \
    Marc Marcel Marcin Marco Marcos Marek Margaret Margarita Maria Mariam Marianne Marie \
    Mario Marion Marius Marlene Marta Martha Martin Martina Mary Mateo Mathias Mathilde Matteo \
    Matthew Matthias Maurice Mehmet Melanie Melissa Mia Michael Michal Michel Michelle Miguel \
    Mika Mikael Mike Mikhail Mila Mina Miriam Mohamed Mohammed Moritz Muhammad Mustafa Nadia \
    Nadine Nancy Naomi Natalia Natalie Natasha Nathan Nicholas Nick Nicola Nicolas Nicole Niels \
    Nigel Niklas Nikolai Nils Nina Noah Noemi Nora Norbert Oksana Olaf Ole Oleg Olga Olivia \
    Omar Oscar Oskar Otto Pablo Pamela Paola Paolo Patricia Patrick Paul Paula Pauline Pavel \
    Pedro Peter Petra Philip Philipp Philippe Pierre Pieter Piotr Pia Priya Rachel Rafael Rahul \
    Raj Ralf Ramon Raphael Raquel Rasmus Rebecca Reinhard Renate Ricardo Richard Rita Robert \
    Roberto Robin Roger Roland Rolf Ronald Rosa Rosie Ruben Rudolf Ruth Ryan Sabine \
    Salma Sam Samantha Samir Samira Samuel Sandra Sanjay Sara Sarah Saskia Scott Sean Sebastian \
    Selma Sergei Sergey Sergio Shirley Sigrid Silke Silvia Simon Simone Sofia Sofie Sonja \
    Sophia Sophie Stefan Stefanie Steffen Stella Stephanie Stephen Steve Steven Stuart Susan \
    Susanne Svea Sven Svenja Svetlana Sylvia Takeshi Tamara Tania Tanja Tatiana Teresa Terry \
    Thea Theo Theodor Theresa Thomas Thorsten Tilda Tim Timo Timothy Tina Tobias Todd Tom \
    Tomas Tommaso Tommy Tony Torsten Tove Tracy Tristan Udo Ulrich Ulrike Ursula Uwe Valentina \
    Valeria Valerie Vanessa Vera Verena Veronica Viktor Viktoria Vikram Vincent Vladimir Walter \
    Wanda Werner Wilhelm William Winston Wolfgang Xavier Yasmin Yuki Yuri Yusuf Yvonne Zainab \
    Zoe Zoë Zuzana";

/// Countries, and cities that are not also common words.
const PLACE_NAMES: &str = "\
    Afghanistan Albania Algeria Andorra Angola Argentina Armenia Australia Austria Azerbaijan \
    Bahrain Bangladesh Barbados Belarus Belgium Belize Benin Bhutan Bolivia Bosnia Botswana Brazil \
    Brunei Bulgaria Burundi Cambodia Cameroon Canada Chile China Colombia Croatia Cuba Cyprus \
    Czechia Denmark Dominica Ecuador Egypt England Eritrea Estonia Ethiopia Europe Africa Asia \
    America Fiji Finland France Gabon Gambia Germany Ghana Greece Greenland Grenada Guatemala \
    Guinea Guyana Haiti Honduras Hungary Iceland India Indonesia Iran Iraq Ireland Israel Italy \
    Jamaica Japan Kazakhstan Kenya Kosovo Kuwait Kyrgyzstan Laos Latvia Lebanon Lesotho Liberia \
    Libya Liechtenstein Lithuania Luxembourg Madagascar Malawi Malaysia Maldives Mali Malta \
    Mauritius Mexico Moldova Monaco Mongolia Montenegro Morocco Mozambique Myanmar Namibia Nepal \
    Netherlands Nicaragua Nigeria Norway Oman Pakistan Palestine Panama Paraguay Paris Peru Philippines \
    Poland Portugal Qatar Romania Russia Rwanda Samoa Scotland Senegal Serbia Singapore Slovakia \
    Slovenia Somalia Spain Sudan Suriname Sweden Switzerland Syria Taiwan Tajikistan Tanzania \
    Thailand Togo Tunisia Turkmenistan Uganda Ukraine Uruguay Uzbekistan Venezuela \
    Vietnam Wales Yemen Zambia Zimbabwe Scandinavia Bavaria Tuscany Sicily Sardinia Corsica \
    Catalonia Andalusia Provence Normandy Brittany Siberia California Texas Oregon Nevada Ohio \
    Michigan Illinois Massachusetts Pennsylvania Connecticut Colorado Arizona Utah Alaska Hawaii \
    Minnesota Wisconsin Louisiana Tennessee Kentucky Alabama Oklahoma Kansas Nebraska Idaho \
    Montana Wyoming Florida Quebec Ontario Alberta Queensland Tasmania Bali Crete Ibiza Mallorca \
    Amsterdam Rotterdam Utrecht Eindhoven Antwerp Brussels Ghent Bruges Berlin Hamburg Munich \
    Cologne Frankfurt Stuttgart Leipzig Dresden Bremen Hanover Nuremberg Bonn Aachen Freiburg \
    Heidelberg Vienna Graz Linz Salzburg Innsbruck Zurich Geneva Basel Bern Lausanne Lucerne \
    Rome Milan Naples Turin Venice Bologna Palermo Genoa Verona Trieste Lisbon Porto Coimbra \
    Braga Madrid Barcelona Valencia Seville Bilbao Granada Malaga Zaragoza Lyon Marseille \
    Toulouse Bordeaux Nantes Strasbourg Lille Grenoble Montpellier Rennes London Manchester \
    Liverpool Birmingham Leeds Sheffield Bristol Edinburgh Glasgow Aberdeen Cardiff Belfast \
    Dublin Galway Oxford Cambridge Copenhagen Aarhus Odense Stockholm Gothenburg Malmö Uppsala \
    Ystad Oslo Bergen Trondheim Stavanger Helsinki Turku Tampere Espoo Oulu Reykjavik Tallinn \
    Tartu Riga Vilnius Kaunas Warsaw Krakow Gdansk Wroclaw Poznan Prague Brno Bratislava Budapest \
    Bucharest Sofia Belgrade Zagreb Ljubljana Sarajevo Skopje Athens Thessaloniki Istanbul Ankara \
    Izmir Kyiv Kiev Lviv Odessa Minsk Moscow Tbilisi Yerevan Baku Tehran Baghdad Damascus Beirut \
    Amman Jerusalem Haifa Cairo Alexandria Tunis Algiers Casablanca Marrakesh Rabat Dakar \
    Lagos Abuja Accra Nairobi Kampala Kigali Addis Johannesburg Durban Pretoria Dubai Riyadh \
    Doha Karachi Lahore Islamabad Delhi Mumbai Pune Bangalore Bengaluru Chennai Hyderabad Kolkata \
    Ahmedabad Jaipur Dhaka Kathmandu Colombo Bangkok Hanoi Saigon Jakarta Manila Kuala Beijing \
    Shanghai Shenzhen Guangzhou Chengdu Wuhan Seoul Busan Tokyo Kyoto Osaka Nagoya Sapporo \
    Fukuoka Taipei Melbourne Brisbane Perth Adelaide Canberra Auckland Wellington Christchurch \
    Toronto Montreal Vancouver Ottawa Calgary Edmonton Boston Chicago Seattle Denver Houston \
    Dallas Philadelphia Baltimore Pittsburgh Cleveland Detroit Minneapolis Milwaukee Atlanta \
    Miami Orlando Tampa Nashville Memphis Phoenix Tucson Portland Sacramento Oakland Honolulu \
    Brooklyn Manhattan Queens Havana Bogota Medellin Quito Lima Cusco Santiago Valparaiso \
    Montevideo Asuncion Caracas Recife Salvador Brasilia Curitiba Guadalajara Monterrey";

/// Products, tools and stages of work. They are not places to live: `we moved to Terraform`.
const PRODUCTS: &str = "\
    Airtable Android Angular Ansible Asana Azure Bazel Bluesky Cassandra Chrome Clojure Confluence \
    Consul Cursor Datadog Debian Discord Django Drupal Elasticsearch Elixir Emacs Erlang Facebook \
    Fedora Figma Firebase Firefox Flask Flutter Gmail Google Gradle Grafana Hadoop Haskell Helm \
    Heroku Hetzner Instagram Jenkins Jira Joomla Kafka Kotlin Laravel Linear Lua Mac Magento Mastodon Maven \
    Mongo Netflix Nginx Nix Nomad Notion Obsidian Opera Oracle Outlook Photoshop Prometheus \
    Rails React Safari Salesforce Scala Sentry Shopify Signal Slack Snowflake Spark Spotify Spring \
    Stripe Svelte Swift Symfony Telegram Terraform Thunderbird Tokio Trello Twitter Ubuntu Vault \
    Vercel Vim Vue Whatsapp Wordpress Youtube Zig Zoom Prod Production Staging Main Master Scrum \
    Agile Plan Phase Option Stage Step Version Chapter Module Level Round Tailwind Bootstrap \
    Webpack Vite Deno Bun Node Express Nuxt Remix Astro Cloudflare Netlify Supabase Mysql Sqlite \
    Clickhouse Bigquery Looker Tableau Hubspot Zendesk Intercom Twilio Sendgrid Mailchimp Pytorch \
    Tensorflow Keras Pandas Polars Poetry Cmake Meson Ninja Wayland Gnome Plasma Gentoo Manjaro \
    Claude Gemini Copilot Mistral Llama Openai Anthropic Codex";

/// Well-known companies.
const COMPANIES: &str = "\
    Accenture Adidas Adobe Airbus Aldi Alibaba Allianz Amazon Apple Astrazeneca Audi Bayer Boeing \
    Bosch Cisco Continental Daimler Dell Deloitte Ericsson Facebook Google Heineken Hilton Honda \
    Huawei Hyundai Ikea Infosys Intel Lego Lenovo Lidl Lockheed Lufthansa Mattel Mercedes \
    Microsoft Netflix Nestle Nike Nintendo Nissan Nokia Novartis Nvidia Oracle Panasonic Pfizer \
    Philips Porsche Qualcomm Renault Roche Salesforce Samsung Shopify Siemens Sony Spotify \
    Starbucks Stripe Tesla Toyota Uber Unilever Vodafone Volkswagen Volvo Walmart Zalando";

fn set(list: &'static str) -> BTreeSet<&'static str> {
    list.split_ascii_whitespace().collect()
}

/// Returns true for a common first name, such as `Ana` or `Jean-Luc`.
pub(crate) fn is_first_name(word: &str) -> bool {
    static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set(FIRST_NAMES));
    let first = word.split('-').next().unwrap_or(word);
    NAMES.contains(word) || NAMES.contains(first)
}

/// Returns true for a country or a large city.
pub(crate) fn is_place(word: &str) -> bool {
    static PLACES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set(PLACE_NAMES));
    PLACES.contains(word)
}

/// Returns true for a product or a tool.
pub(crate) fn is_product(word: &str) -> bool {
    static LIST: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set(PRODUCTS));
    LIST.contains(word)
}

/// Returns true for a well-known company.
pub(crate) fn is_company(word: &str) -> bool {
    static LIST: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| set(COMPANIES));
    LIST.contains(word)
}
